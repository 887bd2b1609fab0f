"""The browser's door to the second step of log-in, the second factor, and single sign-on.

The flows are django-allauth's views; pages, words and the audit line are ours.
"""

import structlog
from allauth.account.views import ReauthenticateView
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.base.views import ReauthenticateView as CodeAgainView
from allauth.mfa.recovery_codes.views import DownloadRecoveryCodesView, GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.socialaccount.providers.openid_connect import views as openid_connect
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from requests import RequestException

from rftstudio.teams import services
from rftstudio.teams.sign_on import refused

logger = structlog.get_logger(__name__)


class _Invalid422:
    """Forms that are wrong answer 422 here."""

    def form_invalid(self, form) -> HttpResponse:
        answer = super().form_invalid(form)
        answer.status_code = 422
        return answer


class SecondStep(_Invalid422, AuthenticateView):
    template_name = "teams/second_step.html"


class PasswordAgain(_Invalid422, ReauthenticateView):
    template_name = "teams/password_again.html"


class CodeAgain(_Invalid422, CodeAgainView):
    template_name = "teams/password_again.html"


class SecondFactorOn(_Invalid422, ActivateTOTPView):
    template_name = "teams/second_factor_on.html"

    def get_context_data(self, **kwargs) -> dict:
        context = super().get_context_data(**kwargs)
        secret = context["form"].secret
        return context | {"secret_parts": [secret[at : at + 4] for at in range(0, len(secret), 4)]}

    def form_valid(self, form) -> HttpResponse:
        answer = super().form_valid(form)
        services.account_note(self.request.user, "second_factor.turned_on")
        messages.success(
            self.request, "Two-factor log-in is on. Keep the recovery codes where you find them without the phone."
        )
        return answer


class SecondFactorOff(_Invalid422, DeactivateTOTPView):
    template_name = "teams/second_factor_off.html"

    def form_valid(self, form) -> HttpResponse:
        answer = super().form_valid(form)
        services.account_note(self.request.user, "second_factor.turned_off")
        messages.success(self.request, "Two-factor log-in is off. The password alone logs you in now.")
        return answer


class RecoveryCodes(ViewRecoveryCodesView):
    template_name = "teams/recovery_codes.html"


class RecoveryCodesFile(DownloadRecoveryCodesView):
    template_name = "teams/recovery_codes.txt"


class RecoveryCodesNew(_Invalid422, GenerateRecoveryCodesView):
    template_name = "teams/recovery_codes_new.html"

    def form_valid(self, form) -> HttpResponse:
        answer = super().form_valid(form)
        services.account_note(self.request.user, "second_factor.codes_renewed")
        return answer


@never_cache
@require_GET
def sign_on(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Off to the identity provider."""
    return _guarded(openid_connect.login, request, provider_id)


@never_cache
@require_GET
def sign_on_back(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Back from it, with a code to be exchanged."""
    return _guarded(openid_connect.callback, request, provider_id)


def _guarded(view, request: HttpRequest, provider_id: str) -> HttpResponse:
    try:
        return view(request, provider_id)
    except (RequestException, KeyError, ValueError) as exc:
        logger.warning("sign_on_failed", kind=type(exc).__name__)
        return refused(request, f"{settings.STUDIO_OIDC_NAME} does not answer as it should.",
                       "Try again later; whoever runs Studio finds the cause in its log.", status=503)  # fmt: skip
