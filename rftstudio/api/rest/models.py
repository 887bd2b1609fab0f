"""What the REST door itself has to remember: answers that a retry gets again, and how many requests a minute had."""

from django.db import models

from rftstudio.teams.models import Team


class KeptAnswer(models.Model):
    """The answer to a request with an idempotency key. Made in the transaction of the write it answers for."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    who = models.CharField(max_length=40, help_text="key:<id> or user:<id>; keys of two callers never meet.")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="SHA-256 of method, address and body.")
    status = models.PositiveSmallIntegerField(default=0)
    body_sealed = models.TextField(blank=True, help_text="Encrypted, because an answer may show a secret once.")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "who", "key"], name="kept_answer_once_per_key")]


class RequestCount(models.Model):
    """Requests of one caller in one minute; written by one upsert (limits.py)."""

    who = models.CharField(max_length=40)
    minute = models.BigIntegerField(help_text="Minutes since 1970.")
    count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["who", "minute"], name="request_count_once_per_minute")]
        indexes = [models.Index(fields=["minute"])]
