"""The form that orders stored rollouts graded again."""

from typing import Any

from django import forms

from jobs.rollouts.regrade import MOST_ROLLOUTS
from jobs.rollouts.regrade_selectors import Source


class RegradeForm(forms.Form):
    """Which rollouts, and what they may cost."""

    sources = forms.MultipleChoiceField(label="Rollouts of", error_messages={"required": "Tick at least one."})
    max_rollouts = forms.IntegerField(
        required=False, min_value=1, max_value=MOST_ROLLOUTS, label="Rollouts at most",
        help_text=f"The newest are taken. Empty: all, up to {MOST_ROLLOUTS:,}.",
    )  # fmt: skip
    cap_usd = forms.DecimalField(
        required=False, min_value=0, max_digits=12, decimal_places=2, label="Judges may cost",
        help_text="It stops before a mark that might go beyond, and can go on later. Empty: no limit.",
    )  # fmt: skip

    def __init__(self, *args: Any, sources: list[Source], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["sources"].choices = [(source.key, source.title) for source in sources if source.rollouts]
