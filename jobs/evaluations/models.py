"""Evaluations: a policy's rollouts on one split, and what they came to."""

from django.db import models

from datasets.models import DatasetVersion, Split
from graders.models import GraderVersion
from jobs.agents.models import AgentVersion, ModelEndpoint
from jobs.rollouts.models import RolloutBatch
from rftstudio.core.models import PublicIdField
from rftstudio.teams.models import TeamOwned


class Evaluation(TeamOwned):
    """n rollouts for each item of a split, graded. The one before training is the baseline."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    public_id = PublicIdField("evalrun_")
    number = models.PositiveIntegerField()
    dataset_version = models.ForeignKey(DatasetVersion, on_delete=models.PROTECT, related_name="+")
    split = models.CharField(max_length=12, choices=Split.choices, default=Split.TEST)
    agent_version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT, related_name="evaluations")
    grader_version = models.ForeignKey(GraderVersion, on_delete=models.PROTECT, related_name="+")
    model = models.ForeignKey(
        ModelEndpoint,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="The agent's model, or a checkpoint in its place.",
    )
    policy_label = models.CharField(max_length=200, blank=True)
    samples_per_item = models.PositiveIntegerField(default=4)
    max_items = models.PositiveIntegerField(null=True, blank=True)
    pass_threshold = models.FloatField(default=0.5)
    seed = models.BigIntegerField(default=0)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    error = models.TextField(blank=True)
    batch = models.OneToOneField(RolloutBatch, on_delete=models.PROTECT, related_name="+")
    metrics = models.JSONField(default=dict, blank=True)
    readiness = models.JSONField(default=dict, blank=True, help_text="The verdict lines as last computed.")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "number"], name="evaluation_number_once_per_team")]
        indexes = [models.Index(fields=["team", "-id"])]
