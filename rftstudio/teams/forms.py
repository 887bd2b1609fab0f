"""Forms of log-in and of the team's own pages."""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from decimal import Decimal

from django import forms
from django.contrib.auth.forms import AuthenticationForm, BaseUserCreationForm
from django.core.exceptions import ValidationError

from rftstudio.core.errors import UserError
from rftstudio.core.money import parse_usd
from rftstudio.teams.models import Role, User
from rftstudio.teams.permissions import KEY_RIGHTS


class LogInForm(AuthenticationForm):
    """Django's form in our words. It never says which of the two was wrong."""

    error_messages = {
        "invalid_login": "E-mail address and password do not match. Check both; capital letters count in the password.",
        "inactive": "This account is closed. Ask an owner of your team.",
    }

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "E-mail address"
        self.fields["username"].widget.attrs.update(autocomplete="username", inputmode="email", spellcheck="false")

    def clean_username(self) -> str:
        return self.cleaned_data["username"].strip().lower()


class ApiKeyForm(forms.Form):
    name = forms.CharField(
        max_length=80,
        label="Name",
        help_text="Where the key will be used, for instance: nightly import.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    role = forms.ChoiceField(
        label="May do what",
        choices=[
            (Role.VIEWER, "Viewer: read everything"),
            (Role.EXPERT, "Expert: read, and label"),
            (Role.ENGINEER, "Engineer: also edit, evaluate and launch jobs"),
        ],
        initial=Role.ENGINEER,
        help_text="A key never manages members or other keys, nor approves money.",
    )
    scopes = forms.MultipleChoiceField(
        required=False,
        label="Only these rights",
        choices=[(right.value, right.value.replace("_", " ")) for right in KEY_RIGHTS],
        widget=forms.CheckboxSelectMultiple,
        help_text="None ticked: all of its role.",
    )
    expires_at = forms.DateField(
        required=False,
        label="Last day",
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Empty: it works until it is revoked.",
    )
    budget_usd = forms.CharField(required=False, max_length=16, label="Money per month")
    acts_as = forms.ChoiceField(required=False, label="For", help_text="A service account, in whose name it spends.")

    def __init__(self, *args, accounts: Sequence[User] = (), **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.accounts = {str(user.pk): user for user in accounts}
        self.fields["acts_as"].choices = [
            ("", "nobody in particular"),
            *((pk, str(user)) for pk, user in self.accounts.items()),
        ]

    def clean_budget_usd(self) -> Decimal | None:
        text = self.cleaned_data["budget_usd"]
        return _read(parse_usd, text) if text else None

    def clean_expires_at(self) -> datetime | None:
        """To the end of that day."""
        day = self.cleaned_data["expires_at"]
        return datetime.combine(day, time.max, tzinfo=UTC) if day else None

    def clean_acts_as(self) -> User | None:
        return self.accounts.get(self.cleaned_data["acts_as"])


def _read(read, text: str):
    try:
        return read(text)
    except UserError as exc:
        raise ValidationError(str(exc)) from exc


ROLES = [
    (Role.VIEWER, "Viewer: reads"),
    (Role.EXPERT, "Expert: reads and labels"),
    (Role.ENGINEER, "Engineer: also edits, evaluates and launches jobs"),
    (Role.OWNER, "Owner: also manages members, keys and money"),
]


class InviteForm(forms.Form):
    email = forms.EmailField(label="E-mail address", widget=forms.EmailInput(attrs={"autocomplete": "off"}))
    role = forms.ChoiceField(label="Role", choices=ROLES, initial=Role.EXPERT)


class ServiceAccountForm(forms.Form):
    name = forms.CharField(max_length=80, label="Name", help_text="What it does, for instance: nightly import.")
    role = forms.ChoiceField(label="Role", choices=ROLES[:3], initial=Role.ENGINEER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=ROLES)


class JoinForm(BaseUserCreationForm):
    """The account of somebody who was invited: a name and a password that passes the rules."""

    name = forms.CharField(max_length=120, required=False, label="Your name", help_text="As others see it.")
    field_order = ("name", "password1", "password2")

    class Meta:
        model = User
        fields = ()
