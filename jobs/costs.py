"""What a job's work costs: one usage record for each train step and attempt, so a replay changes no sum."""

from datetime import datetime
from decimal import Decimal

from django.db.models import Sum
from django.utils import timezone

from jobs.models import Job
from rftstudio.usage.models import Unit, UsageRecord
from rftstudio.usage.selectors import price_at
from rftstudio.usage.services import usage_record


def step_charge(job: Job, *, step: int, attempt: int, seconds: float, at: datetime) -> None:
    """Book a train step's seconds. A step that ran again after a crash did cost again, and says so."""
    usage_record(
        team=job.team,
        source=f"{job.public_id}/step/{step}/attempt/{attempt}",
        unit=Unit.TRAINING_SECOND,
        subject=job.backend,
        quantity=Decimal(str(round(max(seconds, 0.0), 6))),
        at=at,
        batch_source=job.public_id,
    )


def job_cost(job: Job) -> Decimal | None:
    """Dollars booked so far; None where nothing of it is priced."""
    return UsageRecord.objects.filter(batch_source=job.public_id).aggregate(sum=Sum("usd"))["sum"]


def second_price(backend: str) -> Decimal | None:
    """Dollars for one second of training now; None when this installation has no price for it."""
    return price_at(unit=Unit.TRAINING_SECOND, subject=backend, at=timezone.now())
