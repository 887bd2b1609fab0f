"""A grader is a named line of versions; a version is a frozen recipe in the wire format."""

from django.db import models

from rftstudio.core.models import OrderedJSONField, PublicIdField
from rftstudio.teams.models import TeamOwned


class Grader(TeamOwned):
    """A named recipe for scoring."""

    public_id = PublicIdField("grader-")
    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=120)
    draft = OrderedJSONField(default=dict, blank=True, help_text="The recipe being edited, in the wire format.")
    started_from = models.CharField(
        max_length=64, blank=True, help_text="Key of the starting point, whose rows the live test offers."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "slug"], name="grader_slug_once_per_team")]

    def __str__(self) -> str:
        return self.name


class GraderVersion(TeamOwned):
    """One published recipe. Never changes."""

    public_id = PublicIdField("gver-")
    grader = models.ForeignKey(Grader, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    config = OrderedJSONField(help_text="The grader in the wire format (`type`, …).")
    pass_threshold = models.FloatField(default=0.5, help_text="A rollout passes at this reward or above.")
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["grader", "number"], name="grader_version_number_once")]

    def __str__(self) -> str:
        return f"{self.grader.name}, version {self.number}"
