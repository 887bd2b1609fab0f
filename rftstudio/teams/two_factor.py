"""A second factor for log-in: codes from an authenticator app, and ten recovery codes for the day the phone is lost.

django-allauth keeps and checks them; here stands what is ours: secrets are sealed, wrong codes count as wrong passwords do.
"""

from dataclasses import dataclass
from datetime import datetime

from allauth.account.forms import ReauthenticateForm as PasswordForm
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from axes.handlers.proxy import AxesProxyHandler
from django import forms
from django.contrib.auth.signals import user_login_failed
from django.core.exceptions import ValidationError

from rftstudio.core.sealed import seal, unseal
from rftstudio.teams.models import User

WRONG = "The code is not right, or was used already. Type the six digits that the app shows now, or a recovery code."


class MfaAdapter(DefaultMFAAdapter):
    """Authenticator secrets are stored sealed, like every other secret."""

    error_messages = DefaultMFAAdapter.error_messages | {"incorrect_code": WRONG}

    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return unseal(encrypted_text)


class _Throttled(forms.Form):
    """Guesses are counted with those of passwords, in the database that all processes share."""

    user: User

    def full_clean(self) -> None:
        if not self.is_bound:
            return super().full_clean()
        request, who = context.request, {"username": self.user.email}
        if not AxesProxyHandler.is_allowed(request, who):
            request.axes_locked_out = True  # the middleware answers with the page that says so
            self._errors, self.cleaned_data = forms.utils.ErrorDict(), {}
            self.add_error(None, ValidationError("Too many attempts. Wait a quarter of an hour."))
            return None
        super().full_clean()
        if self.errors and any(self.data.get(name) for name in self.fields):
            user_login_failed.send(sender=__name__, credentials=who, request=request)
        return None


class CodeForm(_Throttled, AuthenticateForm):
    """The second step of log-in."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        _plain(self.fields["code"], "Six digits from the app, or one of your recovery codes.")


class CodeAgainForm(_Throttled, ReauthenticateForm):
    """Before the factor is changed, by those who have no password."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        _plain(self.fields["code"], "Six digits from the app, or one of your recovery codes.")


class PasswordAgainForm(_Throttled, PasswordForm):
    """Before the factor is changed: whoever found an open browser must not be able to."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].help_text = ""
        self.fields["password"].widget.attrs.pop("placeholder", None)


class ActivateForm(ActivateTOTPForm):
    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        _plain(self.fields["code"], "Six digits, as the app shows them after it has read the picture.")


def _plain(field: forms.Field, help_text: str) -> None:
    field.label, field.help_text = "Code", help_text
    field.widget.attrs.pop("placeholder", None)
    field.widget.attrs.update(inputmode="numeric", autocomplete="one-time-code", autofocus=True)


@dataclass(frozen=True)
class SecondFactor:
    """What a person's page tells of it."""

    since: datetime | None = None
    codes_left: int = 0

    @property
    def is_on(self) -> bool:
        return self.since is not None


def second_factor_of(user: User) -> SecondFactor:
    kept = {row.type: row for row in Authenticator.objects.filter(user=user)}
    app, codes = kept.get(Authenticator.Type.TOTP), kept.get(Authenticator.Type.RECOVERY_CODES)
    if app is None:
        return SecondFactor()
    return SecondFactor(app.created_at, len(codes.wrap().get_unused_codes()) if codes else 0)


def has_second_factor(user: User) -> bool:
    return Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists()
