"""Forms of the notices page."""

from typing import Any

from django import forms

from rftstudio.notify.models import EventType, MailChoice, Sink

EVENTS = [(kind.value, f"{kind.label} ({kind.value})") for kind in EventType if kind != EventType.TEST]


class MailForm(forms.ModelForm):
    class Meta:
        model = MailChoice
        fields = ("job_ended", "approval_asked")


class WebhookForm(forms.Form):
    """Where news goes, and which."""

    url = forms.URLField(
        max_length=500, label="Address", assume_scheme="https", help_text="Called by POST, with a signature."
    )
    events = forms.MultipleChoiceField(
        required=False, choices=EVENTS, widget=forms.CheckboxSelectMultiple, label="Which events",
        help_text="None ticked: all of them.",
    )  # fmt: skip


class SinkForm(forms.Form):
    """Where metrics are copied to."""

    kind = forms.ChoiceField(choices=Sink.Kind.choices, label="What it is")
    project = forms.CharField(max_length=120, label="Project", help_text="Or experiment; it is made there if need be.")
    url = forms.URLField(
        max_length=500, required=False, label="Server address", assume_scheme="https",
        help_text="MLflow needs one; the others have their own.",
    )  # fmt: skip
    secret = forms.CharField(
        required=False, label="Key or token", help_text="Encrypted when stored, and never shown again.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        return {**self.cleaned_data, "url": self.cleaned_data.get("url") or ""}
