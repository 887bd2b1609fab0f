"""The training run and nothing else: job, train steps, checkpoints, events."""

from django.db import models

from jobs.agents.models import ModelEndpoint
from jobs.evaluations.models import Evaluation
from jobs.rollouts.models import RolloutBatch
from rftstudio.core.models import PublicIdField
from rftstudio.teams.models import TeamOwned


class Job(TeamOwned):
    """One training run. Its truth is this row: status, lease and heartbeat; Celery only wakes workers."""

    class Status(models.TextChoices):
        VALIDATING = "validating_files"
        QUEUED = "queued"
        RUNNING = "running"
        PAUSING = "pausing"
        PAUSED = "paused"
        CANCELLING = "cancelling"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    class Method(models.TextChoices):
        REINFORCEMENT = "reinforcement", "Practise for rewards"
        SUPERVISED = "supervised", "Learn from good examples"

    public_id = PublicIdField("ftjob-")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=120, blank=True)
    baseline = models.ForeignKey(
        Evaluation, on_delete=models.PROTECT, related_name="jobs", help_text="Fixes dataset, agent and grader versions."
    )
    backend = models.CharField(max_length=24, default="trl")
    base_model = models.ForeignKey(ModelEndpoint, on_delete=models.PROTECT, related_name="+")
    method = models.CharField(max_length=16, choices=Method.choices, default=Method.REINFORCEMENT)
    demonstrations = models.JSONField(
        default=dict, blank=True, help_text="What a supervised job learns from; see jobs.demonstrations."
    )
    plan = models.JSONField(
        default=dict, help_text="Hyperparameters of the reference plus advanced ones, all filled in."
    )
    seed = models.BigIntegerField(default=0)
    launch_key = models.CharField(
        max_length=64, blank=True, help_text="The form's one-time key: a second click finds the first job."
    )
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.VALIDATING)
    status_note = models.TextField(blank=True, help_text="Why it is in this status, for a person.")
    error = models.JSONField(null=True, blank=True, help_text="{code, message, param} as on the wire.")
    external_id = models.CharField(max_length=120, blank=True)
    run_dir = models.CharField(max_length=500, blank=True)
    process = models.JSONField(default=dict, blank=True, help_text="pid, start time and host of the trainer process.")
    restarts = models.PositiveSmallIntegerField(default=0)
    journal_cursor = models.BigIntegerField(default=0, help_text="Bytes of the backend's journal already brought home.")
    lease_until = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    total_steps = models.PositiveIntegerField(default=0)
    done_steps = models.PositiveIntegerField(default=0)
    best_checkpoint = models.ForeignKey(
        "Checkpoint", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    trained_tokens = models.BigIntegerField(null=True, blank=True)
    result = models.JSONField(
        default=dict, blank=True, help_text="The backend's closing report: rollouts, train steps, seconds."
    )
    muted_alarms = models.JSONField(
        default=dict, blank=True, help_text="Alarms that a person set aside for this job: key → {name, by, at}."
    )
    queued_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "number"], name="job_number_once_per_team"),
            models.UniqueConstraint(
                fields=["team", "launch_key"], condition=~models.Q(launch_key=""), name="job_once_per_launch_key"
            ),
        ]
        indexes = [models.Index(fields=["team", "-id"]), models.Index(fields=["status"])]

    @property
    def is_supervised(self) -> bool:
        return self.method == self.Method.SUPERVISED

    @property
    def is_active(self) -> bool:
        return self.status not in {self.Status.SUCCEEDED, self.Status.FAILED, self.Status.CANCELLED, self.Status.PAUSED}


class LaunchDraft(TeamOwned):
    """A launch form put aside, ready or not. It holds no money; launching it ends it."""

    public_id = PublicIdField("draft_")
    name = models.CharField(max_length=120, blank=True)
    baseline = models.ForeignKey(Evaluation, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    baseline_was = models.CharField(
        max_length=200, blank=True, help_text="What the baseline was called, should it be deleted."
    )
    launch_key = models.CharField(
        max_length=64, help_text="The form's one-time key: saving twice changes one draft, and its job takes it over."
    )
    values = models.JSONField(default=dict, help_text="Each field of the form as it was filled in, checked or not.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "launch_key"], name="launch_draft_once_per_launch_key")]


class TrainStep(models.Model):
    """One optimiser update and the batch of rollouts behind it."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="train_steps")
    number = models.PositiveIntegerField(help_text="1-based.")
    attempt = models.PositiveSmallIntegerField(default=1)
    batch = models.OneToOneField(RolloutBatch, null=True, on_delete=models.PROTECT, related_name="+")
    metrics = models.JSONField(default=dict, blank=True, help_text="As the wire's metrics event, unknown keys kept.")
    mean_reward = models.FloatField(null=True, blank=True, help_text="Over graded rollouts.")
    validation_reward = models.FloatField(null=True, blank=True)
    rollouts = models.PositiveIntegerField(null=True, help_text="Training ones at home; null where nobody counted.")
    validation_rollouts = models.PositiveIntegerField(null=True)
    at = models.DateTimeField(null=True, blank=True)
    is_credited = models.BooleanField(default=False, help_text="Its rollouts have stored credit.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="train_step_once")]


class Checkpoint(TeamOwned):
    """The policy saved at a train step."""

    public_id = PublicIdField("ftckpt_")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="checkpoints")
    step_number = models.PositiveIntegerField()
    path = models.CharField(max_length=500)
    digest = models.CharField(max_length=64, blank=True)
    validation_reward = models.FloatField(null=True, blank=True)
    metrics = models.JSONField(default=dict, blank=True)
    model = models.ForeignKey(ModelEndpoint, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    is_deleted = models.BooleanField(default=False)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Deleted then, unless it is served as a model.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "step_number"], name="checkpoint_once_per_step")]


class JobEvent(models.Model):
    """One line of a job's story, in the wire's shape."""

    public_id = PublicIdField("ftevent-")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    sequence = models.PositiveIntegerField(
        help_text="Order within the job; a replayed journal line hits the same number."
    )
    level = models.CharField(max_length=8, default="info")
    type = models.CharField(max_length=24, default="message")
    message = models.TextField()
    data = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "sequence"], name="event_once")]
