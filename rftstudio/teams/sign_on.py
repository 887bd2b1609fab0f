"""Logging in through the organisation's own identity provider (OpenID Connect), and what every log-in does.

django-allauth speaks the protocol. Ours is who gets in: a person whose address the provider has verified and who has an
account here or an open invitation. Nobody makes an account by merely having one at the provider.
"""

from typing import NoReturn

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from rftstudio.teams.models import User
from rftstudio.teams.people import account_note, invitations_join, invitations_open
from rftstudio.teams.sessions import session_note

PROVIDER_ID = "oidc"
PASSWORD_BACKEND = "django.contrib.auth.backends.ModelBackend"
logger = structlog.get_logger(__name__)


def sign_on_door() -> dict[str, str]:
    """Name and address of the identity provider's button; empty where none is set up."""
    if not settings.STUDIO_OIDC_ISSUER:
        return {}
    return {"name": settings.STUDIO_OIDC_NAME, "url": reverse("openid_connect_login", args=[PROVIDER_ID])}


def refused(request: HttpRequest, what: str, fix: str, *, status: int = 403) -> HttpResponse:
    """The page that says why nobody was logged in."""
    context = {"name": settings.STUDIO_OIDC_NAME, "what": what, "fix": fix}
    return render(request, "teams/sign_on_refused.html", context, status=status)


def refuse(request: HttpRequest, what: str, fix: str, *, status: int = 403) -> NoReturn:
    raise ImmediateHttpResponse(refused(request, what, fix, status=status))


class AccountAdapter(DefaultAccountAdapter):
    """People come by invitation; each log-in is noted, so that they can see where they are logged in."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "incorrect_password": "That is not your password.",
        "too_many_login_attempts": "Too many attempts. Wait some minutes, then try again.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def login(self, request: HttpRequest, user: User) -> None:
        user.backend = getattr(user, "backend", PASSWORD_BACKEND)
        super().login(request, user)
        session_note(request)

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        return refused(request, "This account is closed.", "Ask an owner of your team.")

    def add_message(self, request, level, message_template=None, *args, message=None, **kwargs) -> None:
        """Ours are said by our views; of the library's only those about a refusal pass."""
        if message:
            super().add_message(request, level, message_template, *args, message=message, **kwargs)


class SocialAdapter(DefaultSocialAccountAdapter):
    """An identity belongs to the account with the address that the provider has verified."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        # Connecting by hand would tie an identity with another address to the account that is logged in.
        sociallogin.state.pop("process", None)
        if sociallogin.is_existing:
            return
        user = User.objects.filter(email=_verified(sociallogin), is_service=False).first()
        if user is not None:
            with transaction.atomic():
                sociallogin.connect(request, user)
                account_note(user, "account.connected", provider=settings.STUDIO_OIDC_NAME)

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        email, name = _verified(sociallogin), settings.STUDIO_OIDC_NAME
        if not email:
            refuse(request, f"{name} has not verified your e-mail address.",
                   "Verify it there, or ask whoever runs it to send the claim email_verified.")  # fmt: skip
        if not invitations_open(email=email).exists():
            refuse(
                request, f"There is no account for {email} here.", "Ask an owner of your team to invite that address."
            )
        return True

    @transaction.atomic
    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form=None) -> User:
        sociallogin.user.email = _verified(sociallogin)
        user = super().save_user(request, sociallogin, form)
        # The link that they came by is used now, so it is no place to go back to.
        joined = invitations_join(user=user)
        sociallogin.state["next"] = reverse("teams:home", args=[joined[-1].team.slug])
        return user

    def on_authentication_error(self, request, provider, error=None, exception=None, extra_context=None) -> None:
        cancelled = str(error) == "cancelled"
        # The words of the exception may hold the code or the client's secret; its kind does not.
        logger.warning("sign_on_failed", error=str(error), kind=type(exception).__name__)
        what = "You stopped the log-in there." if cancelled else "The log-in there did not succeed, or took too long."
        refuse(request, what, "Try again; if it stays so, ask whoever runs Studio to look at its log.", status=401)


def _verified(sociallogin: SocialLogin) -> str:
    """The verified address, or nothing."""
    return next((one.email.strip().lower() for one in sociallogin.email_addresses if one.verified and one.email), "")
