"""What the REST door needs beyond the floors below: jobs that were asked for and are not launched yet, which model a name
means, and what is known of an uploaded file."""

from typing import Any

from django.db import models
from django.db.models import Q

from datasets.models import DatasetVersion, SourceFile
from graders.models import GraderVersion
from jobs.agents.models import AgentVersion, ModelEndpoint
from jobs.evaluations.models import Evaluation
from jobs.models import Job
from rftstudio.core.models import PublicIdField, Timestamped
from rftstudio.teams.models import ApiKey, Team, TeamOwned


class ModelAlias(Timestamped):
    """Which backend and base model a name of another service means here. Edited in the console."""

    class Backend(models.TextChoices):
        TRL = "trl", "our own machine (open weights)"
        OPENAI = "openai", "a hosted provider"

    name = models.CharField(max_length=160, help_text="What programs send as model, such as o4-mini-2025-04-16.")
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.CASCADE, related_name="+", help_text="Empty: for all teams."
    )
    backend = models.CharField(max_length=24, choices=Backend.choices, default=Backend.TRL)
    target = models.CharField(
        max_length=300,
        help_text="Own machine: the folder or hub name of the weights. Hosted: the name of one of the team's models.",
    )
    reply_tokens = models.PositiveIntegerField(
        default=1024, help_text="The most tokens of one reply in training and evaluation."
    )
    baseline_items = models.PositiveIntegerField(
        default=16, help_text="Items on which the untrained model is measured before the job."
    )
    baseline_samples = models.PositiveIntegerField(default=4, help_text="Rollouts for each of these items.")
    is_readiness_binding = models.BooleanField(
        "readiness is binding",
        default=True,
        help_text="On: a job whose baseline is not ready fails with the reason. Off: it is launched all the same, and "
        "the job's story and the audit log say that this rule overruled the check.",
    )
    defaults = models.JSONField(
        default=dict, blank=True, help_text='Hyperparameters that a request leaves out, such as {"lora_r": 16}.'
    )
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        verbose_name_plural = "model aliases"
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="alias_once_per_team"),
            models.UniqueConstraint(fields=["name"], condition=Q(team=None), name="alias_once_for_all"),
        ]

    def __str__(self) -> str:
        return f"{self.name} → {self.target}"


class FileNote(models.Model):
    """What the REST door knows of a source file: its check, when it expires, whether it was deleted there."""

    class Status(models.TextChoices):
        UPLOADED = "uploaded"
        PROCESSED = "processed"
        ERROR = "error"

    source_file = models.OneToOneField(SourceFile, on_delete=models.CASCADE, related_name="note")
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.UPLOADED)
    status_details = models.TextField(blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)


class JobOrder(TeamOwned):
    """A job asked for by its files. It becomes a job, of the same public id, once its baseline has been measured."""

    class Stage(models.TextChoices):
        FILES = "files", "files are read"
        BASELINE = "baseline", "the untrained model is measured"
        LAUNCHED = "launched"
        FAILED = "failed"
        CANCELLED = "cancelled"

    public_id = PublicIdField("ftjob-")
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    role = models.CharField(max_length=16, blank=True, help_text="The role in which it was asked for.")
    stage = models.CharField(max_length=12, choices=Stage.choices, default=Stage.FILES)
    model_name = models.CharField(max_length=200, help_text="As it was asked for.")
    alias = models.ForeignKey(ModelAlias, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    backend = models.CharField(max_length=24)
    model = models.ForeignKey(ModelEndpoint, on_delete=models.PROTECT, related_name="+")
    training_file = models.ForeignKey(SourceFile, on_delete=models.PROTECT, related_name="+")
    validation_file = models.ForeignKey(SourceFile, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    suffix = models.CharField(max_length=64, blank=True)
    seed = models.BigIntegerField(default=0)
    metadata = models.JSONField(null=True, blank=True)
    integrations = models.JSONField(default=list, blank=True)
    method = models.JSONField(default=dict, help_text="As it was asked for, defaults filled in, header values hidden.")
    hyperparameters = models.JSONField(default=dict, help_text="Those that were sent.")
    tools_sealed = models.TextField(blank=True, help_text="Name, address and headers of the tools, encrypted.")
    grader_version = models.ForeignKey(GraderVersion, on_delete=models.PROTECT, related_name="+")
    dataset_version = models.ForeignKey(
        DatasetVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    agent_version = models.ForeignKey(AgentVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    baseline = models.ForeignKey(Evaluation, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    is_own_baseline = models.BooleanField(default=False, help_text="The baseline was started for this order.")
    job = models.OneToOneField(Job, null=True, blank=True, on_delete=models.CASCADE, related_name="order")
    story = models.JSONField(default=list, help_text="Events before the launch, in the wire's shape.")
    error = models.JSONField(null=True, blank=True, help_text="{code, message, param} as on the wire.")
    idempotency_key = models.CharField(max_length=200, blank=True)
    request_digest = models.CharField(max_length=64, blank=True)
    result_file = models.ForeignKey(SourceFile, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    lease_until = models.DateTimeField(null=True, blank=True)
    faults = models.PositiveSmallIntegerField(default=0, help_text="Looks in a row that ended in an error of ours.")
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "idempotency_key"], condition=~Q(idempotency_key=""), name="order_once_per_key"
            )
        ]
        indexes = [models.Index(fields=["team", "created_at"]), models.Index(fields=["stage"])]

    def __str__(self) -> str:
        return self.public_id

    @property
    def is_supervised(self) -> bool:
        return self.method.get("type") == "supervised"

    @property
    def inner(self) -> dict[str, Any]:
        """What `method` holds under the name of its type."""
        return self.method[self.method["type"]]


class OrderLabel(models.Model):
    """One pair of an order's metadata, for looking jobs up by it."""

    order = models.ForeignKey(JobOrder, on_delete=models.CASCADE, related_name="labels")
    key = models.CharField(max_length=64)
    value = models.CharField(max_length=512)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["order", "key"], name="order_label_once")]
        indexes = [models.Index(fields=["key", "value"])]
