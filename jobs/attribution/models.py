"""Stored credit. One row holds a rollout's shares under one method, in step order."""

from django.db import models

from jobs.rollouts.models import Rollout


class RolloutCredit(models.Model):
    """The credit of every step of a rollout by one method: estimates, with 90 % intervals and support."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="credits")
    method = models.CharField(max_length=24)
    baseline = models.FloatField(help_text="Leave-one-out mean of the group's graded rewards.")
    credits = models.JSONField(help_text="One number a step; sums to reward − baseline for complete methods.")
    low = models.JSONField(help_text="5 % bounds, null where unsupported.")
    high = models.JSONField(help_text="95 % bounds, null where unsupported.")
    support = models.JSONField(help_text="How many comparisons each credit rests on.")
    is_complete = models.BooleanField(default=True)
    detail = models.JSONField(default=dict, blank=True, help_text="What the method can say about each step.")
    computed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rollout", "method"], name="credit_once_per_method")]


class StepMark(models.Model):
    """A person's judgement of one step: did it help the rollout? One a person and step; the last one counts."""

    class Mark(models.IntegerChoices):
        HARMS = -1, "harms"
        NEITHER = 0, "neither"
        HELPS = 1, "helps"

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="step_marks")
    step_index = models.PositiveIntegerField()
    user = models.ForeignKey("teams.User", on_delete=models.CASCADE, related_name="+")
    mark = models.SmallIntegerField(choices=Mark.choices)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rollout", "step_index", "user"], name="mark_once_per_person")]
