"""The launch form, made from the table of hyperparameters."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.forms.fields import InvalidJSONInput

from jobs.backends.registry import BACKENDS
from jobs.demonstrations import MOST_PER_ITEM, ROLLOUTS, Source
from jobs.models import Job
from jobs.plan import AUTO, FIELDS, Field, check_extras
from rftstudio.core.errors import UserError

#: Fields of the form itself; every other one belongs to the plan.
OWN = (
    "name", "seed", "backend", "launch_key", "read_warnings", "override", "method", "learn_from", "least_reward",
    "most_per_item", "extras",
)  # fmt: skip


#: Given anew for each launch.
NOT_KEPT = ("launch_key", "read_warnings", "override")
#: Section 3 of the page, its advanced part too.
HOW_MUCH = ("seed", "extras", *(name for name in FIELDS if not name.startswith("stop_")))


def _form_field(one: Field) -> forms.Field:
    common = {"label": one.label, "help_text": one.help, "required": False}
    if one.choices:
        return forms.ChoiceField(choices=[(choice, choice) for choice in one.choices], initial=one.default, **common)
    field = forms.CharField(initial="" if one.default in (None, AUTO) else f"{one.default:g}", **common)
    field.widget.attrs["inputmode"] = "numeric" if one.kind is int else "decimal"
    if one.default == AUTO:
        field.widget.attrs["placeholder"] = "automatic"
    return field


class _Extras(forms.JSONField):
    """Shown again as it was typed. What no database could keep is refused by the plan, in its words."""

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except (ValueError, RecursionError) as exc:  # thousands of digits, or of brackets
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from exc

    def bound_data(self, data: Any, initial: Any) -> InvalidJSONInput:
        return InvalidJSONInput(data or "")

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)


class LaunchForm(forms.Form):
    """What to train is fixed by the baseline; this says where, how much and when to stop."""

    name = forms.CharField(max_length=120, required=False, label="Name", help_text="So that you find it again.")
    backend = forms.ChoiceField(widget=forms.RadioSelect, label="Where")
    method = forms.ChoiceField(
        widget=forms.RadioSelect, label="How", required=False, choices=Job.Method.choices,
        initial=Job.Method.REINFORCEMENT,
    )  # fmt: skip
    learn_from = forms.ChoiceField(
        label="Learn from", required=False, error_messages={"invalid_choice": "This baseline does not offer that. Choose anew."},
        help_text="Train items only. An answer without tool calls teaches to answer without them.",
    )  # fmt: skip
    least_reward = forms.FloatField(
        label="Least reward", required=False, help_text="Of rollouts; empty takes the grader's pass mark."
    )
    most_per_item = forms.IntegerField(
        label="Of one item at most", required=False, initial=2, min_value=1, max_value=MOST_PER_ITEM,
        help_text="The best by reward, then the one with fewest tool calls.",
    )  # fmt: skip
    extras = _Extras(
        label="Trainer extras", required=False, widget=forms.Textarea(attrs={"rows": 2}),
        help_text='For GPUs, as JSON: {"use_vllm": true, "vllm_mode": "colocate"}. docs/training.md lists them.',
    )  # fmt: skip
    seed = forms.IntegerField(
        initial=0, min_value=0, max_value=2**31 - 1, label="Seed", help_text="The same seed gives the same run."
    )
    launch_key = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)
    read_warnings = forms.BooleanField(required=False, label="I have read the warnings and launch anyway")
    override = forms.CharField(
        required=False, max_length=400, label="Why launch although it is blocked?",
        help_text="Kept in the audit log. Only a team owner may do this.",
    )  # fmt: skip

    def __init__(self, *args, must_read: bool = False, sources: Sequence[Source] = (), **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.must_read = must_read
        self.fields["learn_from"].choices = [("", "Choose")] + [
            (one.key, one.title if one.count is None else f"{one.title} ({one.count:,})") for one in sources
        ]
        self.fields["backend"].choices = [(name, f"{one.label}: {one.text}") for name, one in BACKENDS.items()]
        self.fields["backend"].initial = "trl"
        self.fields["launch_key"].initial = uuid.uuid4().hex
        for name, one in FIELDS.items():
            self.fields[name] = _form_field(one)

    @property
    def kept(self) -> dict[str, str]:
        """What stands in each field, for a draft. Consent and reasons are given at the launch, so they are not kept."""
        return {name: self.data.get(name, "") for name in self.fields if name not in NOT_KEPT}

    def started_anew(self) -> dict[str, str]:
        """What stands in each field, but for section 3, which starts again."""
        fresh = {name: self.shown(name) for name in self.fields if name in HOW_MUCH}
        return {name: self.data.get(name, "") for name in self.fields} | fresh

    def opened(self, values: Mapping[str, str], launch_key: str) -> dict[str, str]:
        """A draft as a filled-in form: fields that came later have their start value."""
        return (
            {name: self.shown(name) for name in self.fields}
            | {name: value for name, value in values.items() if name not in NOT_KEPT}
            | {"launch_key": launch_key}
        )

    def shown(self, name: str) -> str:
        """The start value of a field as a browser would send it."""
        value = self.fields[name].prepare_value(self.get_initial_for_field(self.fields[name], name))
        return "" if value is None or value is False else str(value)

    def group(self, *names: str) -> list[tuple[forms.BoundField, str]]:
        """Bound fields with their units."""
        return [(self[name], FIELDS[name].unit) for name in names]

    @property
    def basic(self) -> list[tuple[forms.BoundField, str]]:
        return self.group(*(name for name, one in FIELDS.items() if not one.is_advanced))

    @property
    def stops(self) -> list[tuple[forms.BoundField, str]]:
        return self.group("stop_usd", "stop_alarm", "stop_zero_variance", "stop_ungraded")

    @property
    def advanced(self) -> list[tuple[forms.BoundField, str]]:
        return self.group(*(n for n, one in FIELDS.items() if one.is_advanced and not n.startswith("stop_")))

    @property
    def is_advanced_wrong(self) -> bool:
        """Whether an error stands where the page folds its fields away."""
        basic = {name for name, one in FIELDS.items() if not one.is_advanced}
        return self.is_bound and bool(set(self.errors) & ({"name", *HOW_MUCH} - basic))

    def clean(self) -> dict[str, Any]:
        """Each hyperparameter read by the table's own rule, so that an error stands at its field."""
        for name, one in FIELDS.items():
            value = self.cleaned_data.get(name)
            if value in (None, "", AUTO):
                continue
            try:
                one.read(value)
            except UserError as exc:
                self.add_error(name, str(exc))
        try:
            check_extras(self.cleaned_data.get("extras"))
        except UserError as exc:
            self.add_error("extras", str(exc))
        if self.chosen_method == Job.Method.SUPERVISED and not self.cleaned_data.get("learn_from"):
            self.add_error("learn_from", "Choose what it learns from.")
        if self.must_read and not self.cleaned_data.get("read_warnings"):
            self.add_error("read_warnings", "Read the warnings and tick this, or mend what they name first.")
        return self.cleaned_data

    @property
    def chosen_method(self) -> str:
        return self.cleaned_data.get("method") or Job.Method.REINFORCEMENT

    @property
    def choice(self) -> dict[str, Any] | None:
        """The choice as `jobs.demonstrations` reads it; None unless the job is to learn from examples."""
        if self.chosen_method != Job.Method.SUPERVISED:
            return None
        kind, _, what = (self.cleaned_data.get("learn_from") or "").partition(":")
        if kind != ROLLOUTS:
            return {"from": kind, "field": what}
        told = {"from": kind, "of": what, "least_reward": self.cleaned_data.get("least_reward")}
        return told | {"most_per_item": self.cleaned_data.get("most_per_item") or 2}

    @property
    def plan(self) -> dict[str, Any]:
        """What was filled in; the rest keeps its default. Rollouts per item left as they stood follow the multiplier."""
        extras = self.cleaned_data.get("extras")
        told = (
            ({"extras": extras} if extras else {})
            | {name: self.cleaned_data.get(name) for name in FIELDS if self.cleaned_data.get(name) not in (None, "")}
            | {name: None for name, one in FIELDS.items() if one.may_be_none and not self.cleaned_data.get(name)}
        )
        if told.get("group_size") == str(FIELDS["group_size"].default) and "compute_multiplier" in told:
            del told["group_size"]
        return told


class NoteForm(forms.Form):
    """Why a person pauses or cancels."""

    note = forms.CharField(required=False, max_length=400)
