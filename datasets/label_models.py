"""Labels: a task with a form, its queue of entries, what people answered, and the history of it."""

from django.conf import settings
from django.db import models

from rftstudio.core.models import PublicIdField
from rftstudio.teams.models import TeamOwned


class LabelTask(TeamOwned):
    """A question to people about the items of a version, or about rollouts, with the form they fill."""

    class Status(models.TextChoices):
        OPEN = "open"
        CLOSED = "closed"

    public_id = PublicIdField("lbl-")
    name = models.CharField(max_length=120)
    instructions = models.TextField(blank=True)
    version = models.ForeignKey(
        "datasets.DatasetVersion", null=True, blank=True, on_delete=models.PROTECT, related_name="label_tasks"
    )
    fields = models.JSONField(default=list, help_text="The form; see labelling/schema.py.")
    overlap = models.PositiveSmallIntegerField(default=1, help_text="How many people label each entry.")
    is_blind = models.BooleanField(default=True, help_text="Labels of others are hidden until one's own is submitted.")
    shows_reference = models.BooleanField(default=False, help_text="Whether the item's own reference is shown.")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.OPEN)
    annotators = models.ManyToManyField(
        settings.AUTH_USER_MODEL, blank=True, related_name="+", help_text="Who labels; nobody named means every member."
    )
    adjudicators = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True, related_name="+")
    agreement = models.JSONField(default=dict, blank=True, help_text="Kept until another label comes in.")

    def __str__(self) -> str:
        return self.name


class LabelEntry(models.Model):
    """One place in the queue. `status` is settled by the labels, in labelling/services.py alone."""

    class Status(models.TextChoices):
        OPEN = "open"
        AGREED = "agreed"
        DISPUTED = "disputed"
        SETTLED = "settled"
        SKIPPED = "skipped"

    task = models.ForeignKey(LabelTask, on_delete=models.CASCADE, related_name="entries")
    item = models.ForeignKey("datasets.Item", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    position = models.PositiveIntegerField()
    subject = models.CharField(max_length=200, help_text="The item's key, or a rollout's public id.")
    content = models.JSONField(
        default=dict, blank=True, help_text="What is shown when it is no item: messages, steps, answer."
    )
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.OPEN)
    submitted = models.PositiveSmallIntegerField(default=0, help_text="Labels submitted, skipped ones not counted.")
    result = models.JSONField(default=dict, blank=True, help_text="The values that hold: agreed or adjudicated.")
    settled_by = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task", "position"], name="label_entry_position_once"),
            models.UniqueConstraint(fields=["task", "subject"], name="label_entry_subject_once"),
        ]
        indexes = [models.Index(fields=["task", "status", "position"])]


class Label(models.Model):
    """One person's answer for one entry. A draft holds the place in the queue until `lease_until`."""

    class Status(models.TextChoices):
        DRAFT = "draft"
        SUBMITTED = "submitted"
        SKIPPED = "skipped"

    entry = models.ForeignKey(LabelEntry, on_delete=models.CASCADE, related_name="labels")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    annotator = models.CharField(max_length=200, help_text="Name or address, also of people who are no members.")
    is_adjudication = models.BooleanField(default=False)
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.DRAFT)
    values = models.JSONField(default=dict, blank=True)
    reason = models.CharField(max_length=500, blank=True, help_text="Why it was skipped.")
    is_flagged = models.BooleanField(default=False)
    seconds = models.FloatField(default=0, help_text="From opening to submitting.")
    lease_until = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField(auto_now_add=True)
    submitted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["entry", "annotator", "is_adjudication"], name="label_once_per_person")
        ]
        indexes = [models.Index(fields=["user", "status", "-submitted_at"])]


class LabelEvent(models.Model):
    """What happened to an entry, in order; append-only."""

    entry = models.ForeignKey(LabelEntry, on_delete=models.CASCADE, related_name="events")
    who = models.CharField(max_length=200)
    verb = models.CharField(max_length=16, help_text="submitted, skipped, reopened, adjudicated, imported, applied")
    values = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]
