"""Forms of log-in and of the team's own pages."""

from django import forms
from django.contrib.auth.forms import AuthenticationForm

from rftstudio.teams.models import Role


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
        help_text="A key never manages members or other keys.",
    )
