"""The form that orders an evaluation."""

from django import forms

from datasets.models import DatasetVersion, Split
from graders.models import GraderVersion
from jobs.agents.models import AgentVersion, ModelEndpoint
from rftstudio.teams.models import Team


class EvaluationForm(forms.Form):
    """Which policy, on which items, judged by what, how often."""

    dataset_version = forms.ModelChoiceField(
        DatasetVersion.objects.none(), to_field_name="public_id", label="Dataset version",
        help_text="Only frozen versions: their items never change.",
    )  # fmt: skip
    split = forms.ChoiceField(
        choices=Split.choices, initial=Split.TEST, label="Split",
        help_text="A baseline is measured on items that training never sees.",
    )  # fmt: skip
    agent_version = forms.ModelChoiceField(
        AgentVersion.objects.none(), to_field_name="public_id", label="Agent version"
    )
    model = forms.ModelChoiceField(
        ModelEndpoint.objects.none(), to_field_name="public_id", label="Model", required=False,
        empty_label="the agent's own model", help_text="A checkpoint in place of the agent's model, if you like.",
    )  # fmt: skip
    grader_version = forms.ModelChoiceField(
        GraderVersion.objects.none(), to_field_name="public_id", label="Grader version"
    )
    samples_per_item = forms.IntegerField(
        initial=4, min_value=1, max_value=64, label="Rollouts per item",
        help_text="4 or more show how rewards differ within an item.",
    )  # fmt: skip
    max_items = forms.IntegerField(
        required=False, min_value=1, label="Items at most", help_text="Empty takes all of the split."
    )
    seed = forms.IntegerField(initial=0, min_value=0, max_value=2**31 - 1, label="Seed", help_text="Draws the items.")

    def __init__(self, *args, team: Team, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        owned = {"team": team}
        self.fields["dataset_version"].queryset = (
            DatasetVersion.objects.filter(**owned, status=DatasetVersion.Status.FROZEN)
            .select_related("dataset")
            .order_by("-id")
        )
        self.fields["agent_version"].queryset = (
            AgentVersion.objects.filter(**owned).select_related("agent").order_by("-id")
        )
        self.fields["grader_version"].queryset = (
            GraderVersion.objects.filter(**owned).select_related("grader").order_by("-id")
        )
        self.fields["model"].queryset = ModelEndpoint.objects.filter(**owned).order_by("name")
        for name in ("dataset_version", "agent_version", "grader_version"):
            newest = self.fields[name].queryset.first()
            if newest is not None:
                self.fields[name].initial = newest.public_id


class CompareForm(forms.Form):
    """Two evaluations of the team."""

    a = forms.CharField(required=False)
    b = forms.CharField(required=False)
