"""Forms of label tasks: the editor of a form, and answers read from a posted form."""

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.text import slugify

from datasets.labelling import schema
from datasets.models import DatasetVersion, LabelTask, Split
from rftstudio.teams.models import Team, User


class PeopleField(forms.ModelMultipleChoiceField):
    widget = forms.CheckboxSelectMultiple


class TaskForm(forms.Form):
    """Everything about a task but its fields."""

    name = forms.CharField(max_length=120, label="Name", help_text="What people are asked to judge.")
    version = forms.ModelChoiceField(DatasetVersion.objects.none(), to_field_name="public_id", label="Items of")
    split = forms.ChoiceField(choices=[("", "all splits"), *Split.choices], required=False, label="Split")
    instructions = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}),
        required=False,
        label="Instructions",
        help_text="Shown beside each item.",
    )
    overlap = forms.IntegerField(
        min_value=1, max_value=20, initial=2, label="People per item", help_text="Two or more measure agreement."
    )
    is_blind = forms.BooleanField(required=False, initial=True, label="Hide the labels of others until one's own is in")
    shows_reference = forms.BooleanField(required=False, label="Show the item's own reference")
    annotators = PeopleField(
        User.objects.none(), required=False, label="Who labels", help_text="Nobody ticked: every member."
    )
    adjudicators = PeopleField(
        User.objects.none(),
        required=False,
        label="Who settles disagreements",
        help_text="Nobody ticked: engineers and owners.",
    )

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        usable = (DatasetVersion.Status.DRAFT, DatasetVersion.Status.FROZEN)
        versions = DatasetVersion.objects.filter(team=team, status__in=usable).select_related("dataset").order_by("-pk")
        self.fields["version"].queryset = versions
        people = User.objects.filter(memberships__team=team).order_by("email")
        labellers = people.exclude(memberships__in=team.memberships.filter(role="viewer"))
        self.fields["annotators"].queryset = labellers
        self.fields["adjudicators"].queryset = labellers


class FieldForm(forms.Form):
    """One field of the form that people fill. An empty question leaves the row out."""

    label = forms.CharField(max_length=200, required=False, label="Question")
    kind = forms.ChoiceField(choices=list(schema.KINDS.items()), label="Answer")
    options = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}), required=False, label="Choices", help_text="One a line."
    )
    low = forms.FloatField(initial=0, required=False, label="From")
    high = forms.FloatField(initial=5, required=False, label="To")
    required = forms.BooleanField(required=False, initial=True, label="Must be answered")

    def as_field(self) -> dict[str, Any] | None:
        values = self.cleaned_data
        if not values.get("label"):
            return None
        name = slugify(values["label"]).replace("-", "_")[:40].strip("_") or "field"
        field = {
            "name": name if name[:1].isalpha() else f"f_{name}"[:40], "label": values["label"], "kind": values["kind"],
            "required": values["required"],
        }  # fmt: skip
        if values["kind"] in ("choice", "tags"):
            field["options"] = schema.options_of(values["options"])
        if values["kind"] == "score":
            field |= {"low": values["low"] or 0, "high": 5 if values["high"] is None else values["high"]}
        return field


FieldFormSet = forms.formset_factory(FieldForm, extra=4, max_num=12)


def fields_of(formset: Any) -> list[dict[str, Any]]:
    """The form's fields, each with a name of its own."""
    fields, names = [], set()
    for form in formset:
        field = form.as_field()
        if field is None:
            continue
        base, step = field["name"], 1
        while field["name"] in names:
            step += 1
            field["name"] = f"{base[:36]}_{step}"
        names.add(field["name"])
        fields.append(field)
    return fields


class ImportForm(forms.Form):
    name = forms.CharField(max_length=120, label="Name", help_text="Of the new dataset and its label task.")
    file = forms.FileField(label="Label Studio export", help_text="JSON, as its Export page writes it.")


class ApplyForm(forms.Form):
    """How labels become a field of the items."""

    field = forms.ChoiceField(label="Answer to")
    rule = forms.ChoiceField(
        label="Which answer",
        choices=[("majority", "what most said, or was settled"), ("adjudicated", "only agreed or settled ones"),
                 ("single", "one person's")],
    )  # fmt: skip
    annotator = forms.ChoiceField(required=False, label="Whose")
    item_field = forms.CharField(
        max_length=60, required=False, label="Item field", help_text="Empty: the answer's own name."
    )

    def __init__(self, *args: Any, task: LabelTask, annotators: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["field"].choices = [(field["name"], field["label"]) for field in task.fields]
        self.fields["annotator"].choices = [("", "–"), *((name, name) for name in annotators)]


def values_posted(fields: list[dict[str, Any]], post: QueryDict) -> dict[str, Any]:
    """Answers from a posted label form. Choices travel as their place in the list, so any text can be a choice."""
    values: dict[str, Any] = {}
    for field in fields:
        name, kind = field["name"], field["kind"]
        options = [option["value"] for option in field.get("options", [])]
        given = post.getlist(f"value-{name}")
        if kind == "choice":
            picked = [options[int(place)] for place in given if place.isdecimal() and int(place) < len(options)]
            values[name] = picked[0] if picked else None
        elif kind == "tags" and options:
            values[name] = [options[int(place)] for place in given if place.isdecimal() and int(place) < len(options)]
        elif kind in ("tags", "span"):
            values[name] = [line.strip() for text in given for line in text.splitlines() if line.strip()]
        elif kind == "steps":
            prefix = f"value-{name}-"
            values[name] = {
                key.removeprefix(prefix): mark for key, mark in post.items() if key.startswith(prefix) and mark
            }
        else:
            values[name] = given[0] if given else None
    return values
