"""Forms about money. Amounts are plain positive dollars with at most two decimals; anything else is refused in words."""

from decimal import Decimal
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError

from rftstudio.core.errors import UserError
from rftstudio.core.money import parse_usd
from rftstudio.teams.models import ApiKey, Team
from rftstudio.teams.selectors import api_key_list, member_list
from rftstudio.usage.models import Quota


class UsdField(forms.CharField):
    """Dollars. Empty gives None where it is not required."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.widget.attrs.update(inputmode="decimal", autocomplete="off")

    def to_python(self, value: Any) -> Decimal | None:
        text = super().to_python(value)
        if not text:
            return None
        try:
            return parse_usd(text)
        except UserError as exc:
            raise ValidationError(str(exc)) from exc


class TimeZoneForm(forms.Form):
    time_zone = forms.ChoiceField(label="Time zone", help_text="Days and months of cost are cut in it.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["time_zone"].choices = [(name, name.replace("_", " ")) for name in sorted(available_timezones())]


class DecisionForm(forms.Form):
    reason = forms.CharField(required=False, max_length=300, label="Reason", help_text="Kept in the audit log.")


class CorrectionForm(forms.Form):
    usd = forms.DecimalField(
        label="It should have come to",
        min_value=0,
        max_digits=14,
        decimal_places=8,
        help_text="Dollars; 0 is possible.",
    )
    note = forms.CharField(max_length=200, label="Why", help_text="Stands in the ledger beside the correction.")


class QuotaForm(forms.Form):
    """Limits of the whole team, or of one member or key. An empty field does not limit."""

    whose = forms.ChoiceField(label="For whom")
    usd_month = UsdField(required=False, label="Money per month", help_text="Spent and held together.")
    usd_job = UsdField(required=False, label="Money per job", help_text="What one job may cost in all.")
    approval_above_usd = UsdField(
        required=False, label="Ask above", help_text="A job that may cost more waits for an owner."
    )
    jobs_at_once = forms.IntegerField(required=False, min_value=0, max_value=10_000, label="Jobs at once")
    rollouts_day = forms.IntegerField(
        required=False, min_value=0, max_value=2_000_000_000, label="Rollouts per day", help_text="As ordered."
    )
    storage_gb = UsdField(required=False, label="Storage", help_text="Only for the whole team.")

    LIMITS = ("usd_month", "usd_job", "approval_above_usd", "jobs_at_once", "rollouts_day", "storage_gb")

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.members = {f"member:{one.user_id}": one.user for one in member_list(team=team)}
        self.keys: dict[str, ApiKey] = {f"key:{one.pk}": one for one in api_key_list(team=team) if one.is_usable}
        self.fields["whose"].choices = [
            ("team", "The whole team"),
            *[(scope, str(user)) for scope, user in self.members.items()],
            *[(scope, f"key {key.name}") for scope, key in self.keys.items()],
        ]

    @classmethod
    def initial_of(cls, quota: Quota | None, scope: str) -> dict[str, Any]:
        values = {name: getattr(quota, name) for name in cls.LIMITS} if quota else {}
        return {"whose": scope, **values}

    @property
    def order(self) -> dict[str, Any]:
        """What `quota_set` takes."""
        whose = self.cleaned_data["whose"]
        limits = {name: self.cleaned_data[name] for name in self.LIMITS}
        return {"user": self.members.get(whose), "api_key": self.keys.get(whose), **limits}


class MonthForm(forms.Form):
    """A month as its first day or as 2026-11, and why it is opened again."""

    month = forms.DateField(input_formats=["%Y-%m"])
    reason = forms.CharField(required=False, max_length=300)
