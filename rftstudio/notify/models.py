"""What happened that somebody wants to hear of, who wants it and where, and how telling them went."""

from django.db import models

from rftstudio.core.models import PublicIdField
from rftstudio.teams.models import Team, TeamOwned, Timestamped, User


class EventType(models.TextChoices):
    """Names of the reference where it has one, ours behind `studio.`."""

    JOB_SUCCEEDED = "fine_tuning.job.succeeded", "Job succeeded"
    JOB_FAILED = "fine_tuning.job.failed", "Job failed"
    JOB_CANCELLED = "fine_tuning.job.cancelled", "Job cancelled"
    JOB_PAUSED = "studio.job.paused", "Job paused"
    CHECKPOINT_SAVED = "studio.checkpoint.saved", "Checkpoint saved"
    EVALUATION_SUCCEEDED = "studio.evaluation.succeeded", "Evaluation succeeded"
    EVALUATION_FAILED = "studio.evaluation.failed", "Evaluation failed"
    EVALUATION_CANCELLED = "studio.evaluation.cancelled", "Evaluation cancelled"
    APPROVAL_ASKED = "studio.approval.asked", "Approval asked for"
    TEST = "studio.test", "Test"


class Event(models.Model):
    """One thing that happened. Its natural key makes that two looks find it once."""

    public_id = PublicIdField("evt_")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    type = models.CharField(max_length=40, choices=EventType.choices)
    key = models.CharField(max_length=120, unique=True, help_text="type, object and moment.")
    object_id = models.CharField(max_length=64, db_index=True)
    title = models.CharField(max_length=200, blank=True, help_text="For a person: Job 12 succeeded.")
    happened_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["team", "-id"])]


class Webhook(TeamOwned):
    """An address that is told. Its secret is sealed and shown once."""

    public_id = PublicIdField("whk_")
    url = models.URLField(max_length=500)
    events = models.JSONField(default=list, blank=True, help_text="Types it wants; empty: all.")
    secret_sealed = models.TextField(help_text="Encrypted; signs what is sent.")
    old_secret_sealed = models.TextField(blank=True, help_text="Still signs beside the new one until `old_until`.")
    old_until = models.DateTimeField(null=True, blank=True)
    is_active = models.BooleanField(default=True)
    note = models.CharField(max_length=200, blank=True, help_text="Why Studio stopped sending, for a person.")


class Delivery(Timestamped):
    """One event on its way to one address. A replay is another delivery of the same event, with the same id."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        DONE = "done", "delivered"
        FAILED = "failed", "given up"

    public_id = PublicIdField("dlv_")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="deliveries")
    round = models.PositiveSmallIntegerField(default=0, help_text="0 first, then one more for each replay.")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.QUEUED)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(help_text="Not before; a claim moves it on, so a dead worker's is tried again.")
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["webhook", "event", "round"], name="delivery_once_per_round")]
        indexes = [models.Index(fields=["status", "next_at"]), models.Index(fields=["webhook", "-id"])]


class Attempt(models.Model):
    """One try: what came back. The answer's body is not kept."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="tries")
    at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(default=0, help_text="0: no answer came.")
    fault = models.CharField(max_length=200, blank=True)
    milliseconds = models.FloatField(default=0)


class MailChoice(models.Model):
    """What a person wants to be mailed. Without a row: both."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    job_ended = models.BooleanField("my jobs have ended", default=True)
    approval_asked = models.BooleanField("a job waits for my approval", default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="mail_choice_once_per_member")]


class Mail(models.Model):
    """One notice to one person. Made before it is sent, so that no notice is sent twice."""

    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="mails")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["event", "user"], name="mail_once_per_person")]


class Sink(TeamOwned):
    """Another place that shows curves: train metrics of the team's jobs are copied there."""

    class Kind(models.TextChoices):
        WANDB = "wandb", "Weights & Biases"
        MLFLOW = "mlflow", "MLflow"
        TRACKIO = "trackio", "Trackio"

    public_id = PublicIdField("sink_")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    url = models.URLField(max_length=500, blank=True, help_text="Of the server; empty: the kind's own.")
    project = models.CharField(max_length=120, help_text="Project or experiment there.")
    secret_sealed = models.TextField(blank=True, help_text="Encrypted key or token.")
    is_active = models.BooleanField(default=True)
    note = models.CharField(max_length=300, blank=True, help_text="Why copying stopped, for a person.")


class SinkRun(models.Model):
    """How far a job is copied to a sink."""

    sink = models.ForeignKey(Sink, on_delete=models.CASCADE, related_name="runs")
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+")
    external_id = models.CharField(max_length=120, blank=True)
    last_step = models.PositiveIntegerField(default=0)
    is_finished = models.BooleanField(default=False)
    failures = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["sink", "job"], name="sink_run_once_per_job")]
