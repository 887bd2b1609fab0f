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
