"""What a job's work costs: one usage record for each train step and attempt, so a replay changes no sum."""

from datetime import datetime
from decimal import Decimal

from django.db.models import Sum

from jobs.models import Job
from rftstudio.usage.models import Price, Unit, UsageRecord


def price_of(unit: str, subjects: list[str], at: datetime) -> Decimal | None:
    """Dollars for one unit on that day: the first subject that has a price. None means counted, not priced."""
    for subject in subjects:
        found = Price.objects.filter(unit=unit, subject=subject, valid_from__lte=at).order_by("-valid_from").first()
        if found:
            return found.usd
    return None


def step_charge(job: Job, *, step: int, attempt: int, seconds: float, at: datetime) -> None:
    """Book a train step's seconds. A step that ran again after a crash did cost again, and says so."""
    price = price_of(Unit.TRAINING_SECOND, [job.backend, "*"], at)
    quantity = Decimal(str(round(max(seconds, 0.0), 6)))
    UsageRecord.objects.get_or_create(
        source=f"{job.public_id}/step/{step}/attempt/{attempt}",
        defaults={
            "team": job.team,
            "batch_source": job.public_id,
            "unit": Unit.TRAINING_SECOND,
            "subject": job.backend,
            "quantity": quantity,
            "usd": None if price is None else (price * quantity).quantize(Decimal("1e-8")),
            "at": at,
        },
    )


def job_cost(job: Job) -> Decimal | None:
    """Dollars booked so far; None where nothing of it is priced."""
    return UsageRecord.objects.filter(batch_source=job.public_id).aggregate(sum=Sum("usd"))["sum"]
