"""What a job's work costs: one usage record for each train step and attempt, so a replay changes no sum.

Holding the money beforehand and stopping when it is used up is the business of `holds`.
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from django.utils import timezone

from jobs.models import Job
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.services import judge_usages
from rftstudio.usage.models import LedgerLine, Unit
from rftstudio.usage.selectors import last_spent, price_at, source_spent
from rftstudio.usage.services import usage_record, usage_record_many


def step_charge(job: Job, *, step: int, attempt: int, seconds: float, at: datetime) -> None:
    """Book a train step's seconds. A step that ran again after a crash did cost again, and says so."""
    again = f", attempt {attempt}" if attempt > 1 else ""
    usage_record(
        team=job.team,
        source=f"{job.public_id}/step/{step}/attempt/{attempt}",
        unit=Unit.TRAINING_SECOND,
        subject=job.backend,
        quantity=Decimal(str(round(max(seconds, 0.0), 6))),
        at=at,
        batch_source=job.public_id,
        note=f"Job {job.number}, train step {step}{again}",
    )


def judges_charge(job: Job, *, step: int, records: Iterable[RolloutRecord], at: datetime) -> None:
    """Book what model graders read and wrote for these rollouts; each try has a trace id of its own."""
    note = f"Job {job.number}, judge {{model}}, train step {step}"
    usages = [
        usage
        for record in records
        for usage in judge_usages(
            record.trace_id, record.grade.get("usage") or {}, at=at, batch_source=job.public_id, note=note
        )
    ]
    if usages:
        usage_record_many(team=job.team, usages=usages)


def job_cost(job: Job) -> Decimal | None:
    """Dollars booked so far; None where nothing of it is priced."""
    return source_spent(source=job.public_id)


def last_step(job: Job) -> LedgerLine | None:
    """The line of the newest train step: what the one at work may cost."""
    return last_spent(source=job.public_id, unit=Unit.TRAINING_SECOND)


def second_price(backend: str) -> Decimal | None:
    """Dollars for one second of training now; None when this installation has no price for it."""
    return price_at(unit=Unit.TRAINING_SECOND, subject=backend, at=timezone.now())
