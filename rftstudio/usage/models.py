"""What things cost and what was used. Money is Decimal USD."""

from django.db import models
from django.db.models import Q

from rftstudio.teams.models import Team, Timestamped


class Unit(models.TextChoices):
    INPUT_TOKEN = "input_token"
    OUTPUT_TOKEN = "output_token"
    TRAINING_SECOND = "training_second"
    GPU_SECOND = "gpu_second"
    STORAGE_GB_DAY = "storage_gb_day"


class Price(Timestamped):
    """What one unit of a subject costs from a day on. Newer rows end older ones; none is edited."""

    unit = models.CharField(max_length=24, choices=Unit.choices)
    subject = models.CharField(max_length=200, help_text="Model name, backend name, or * for all.")
    usd = models.DecimalField(max_digits=20, decimal_places=12, help_text="Dollars for one unit.")
    valid_from = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["unit", "subject", "valid_from"], name="price_once_per_start"),
            models.CheckConstraint(condition=Q(usd__gte=0), name="price_not_negative"),
        ]


class UsageRecord(models.Model):
    """What was spent on one source. `usd` null means counted, not priced."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    source = models.CharField(max_length=160, unique=True, help_text="Natural key, so a replay changes no sum.")
    batch_source = models.CharField(
        max_length=80, blank=True, db_index=True, help_text="Public id of what asked for it."
    )
    unit = models.CharField(max_length=24, choices=Unit.choices)
    subject = models.CharField(max_length=200)
    quantity = models.DecimalField(max_digits=24, decimal_places=6)
    usd = models.DecimalField(max_digits=20, decimal_places=8, null=True, blank=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["team", "at"])]
