"""Forms of the dataset pages."""

from typing import Any

from django import forms

from datasets.models import Dataset, Split
from datasets.row_mapping import TARGETS
from rftstudio.teams.models import Team

MAPPING_WORDS = {
    "prompt": ("Question", "The column that the model is asked."),
    "reference": ("Reference answer", "What graders compare with; kept as reference_answer."),
    "developer": ("Instructions", "Told to the model before the question."),
    "id": ("Item id", "Unique; else each item gets a number."),
    "split": ("Split", "Holds train, validation or test."),
}


class UploadForm(forms.Form):
    """A file, and the dataset it goes to: a new name or one that exists."""

    dataset = forms.ModelChoiceField(
        Dataset.objects.none(), required=False, label="Dataset", empty_label="a new dataset, named below"
    )
    name = forms.CharField(max_length=120, required=False, label="Name", help_text="What these tasks are about.")
    split = forms.ChoiceField(
        choices=[("", "as its rows say, else train"), *Split.choices], required=False, label="The file's rows go to"
    )
    file = forms.FileField(
        label="File", help_text="JSONL, JSON array, CSV, TSV, Parquet or eval items.", allow_empty_file=True
    )

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["dataset"].queryset = Dataset.objects.filter(team=team).order_by("name")
        if not self.fields["dataset"].queryset.exists():
            self.fields["dataset"].widget = forms.HiddenInput()

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        if not values.get("dataset") and not (values.get("name") or "").strip():
            self.add_error("name", "Name the new dataset, or choose one that exists.")
        return values


class MappingForm(forms.Form):
    """Which column becomes what."""

    def __init__(self, *args: Any, columns: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(column, column) for column in columns]
        for target in TARGETS:
            label, help_text = MAPPING_WORDS[target]
            required = target == "prompt"
            blank = [] if required else [("", "none")]
            self.fields[target] = forms.ChoiceField(
                choices=[*blank, *choices], required=required, label=label, help_text=help_text
            )

    @property
    def mapping(self) -> dict[str, str]:
        return {target: column for target, column in self.cleaned_data.items() if column}


class SplitForm(forms.Form):
    """Shares in per cent, a seed and an optional group field."""

    train = forms.IntegerField(min_value=0, max_value=100, initial=80, label="Train")
    validation = forms.IntegerField(min_value=0, max_value=100, initial=10, label="Validation")
    test = forms.IntegerField(min_value=0, max_value=100, initial=10, label="Test")
    seed = forms.IntegerField(initial=0, label="Seed", help_text="The same seed gives the same split.")
    group_field = forms.ChoiceField(
        required=False, label="Keep together by", help_text="Items with the same value stay on one side."
    )

    def __init__(self, *args: Any, fields: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", "equal questions only")]
        choices += [(name, name) for name in fields if name not in ("messages", "tools")]
        self.fields["group_field"].choices = choices

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        if sum(values.get(side, 0) for side in Split.values) != 100:
            self.add_error(None, "The three shares have to add up to 100.")
        return values

    @property
    def shares(self) -> dict[str, float]:
        return {side: self.cleaned_data[side] / 100 for side in Split.values}


class LineForm(forms.Form):
    text = forms.CharField(widget=forms.Textarea(attrs={"rows": 12, "class": "mono"}), label="The line", strip=False)


class FilterForm(forms.Form):
    """The filters of the item list, read from the address."""

    split = forms.ChoiceField(choices=[("", "all"), *Split.choices], required=False)
    problem = forms.CharField(required=False, max_length=32)
    q = forms.CharField(required=False, max_length=200)
    after = forms.IntegerField(required=False, min_value=0)
    before = forms.IntegerField(required=False, min_value=0)

    def values(self) -> dict[str, Any]:
        """Clean values; a bad one counts as not given."""
        self.is_valid()
        return {name: self.cleaned_data.get(name) for name in self.fields}
