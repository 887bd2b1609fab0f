"""Money held for jobs: asked for at launch and at each resume, given back when a job rests or ends, watched meanwhile.

A job whose request waits for an owner rests as it is: a new one in `validating_files`, a paused one in `paused`. The
look that finds the decision moves it on.
"""

from decimal import ROUND_CEILING, Decimal
from typing import Any

from django.db import transaction

from jobs import costs, selectors
from jobs.estimate import Estimate
from jobs.events import event_note
from jobs.models import Job
from jobs.plan import Derived
from jobs.states import ENDED, Status
from rftstudio.core.errors import QuotaExceeded
from rftstudio.core.money import CENT, show_usd
from rftstudio.teams.actor import Actor
from rftstudio.usage import selectors as money
from rftstudio.usage import services as usage
from rftstudio.usage.models import Approval, Reservation

#: The rest of a job that was paused may cost this much more than its train steps so far say.
REST_MARGIN = Decimal("1.25")


def launch_hold(actor: Actor, job: Job, derived: Derived, guess: Estimate, *, warnings: int = 0) -> Approval | None:
    """Hold the high end of the estimate, or note a request that an owner decides; the request, when there is one."""
    doubts = f" · {warnings} warnings of the baseline" if warnings else ""
    agent = job.baseline.agent_version.agent.name
    answer = usage.reservation_ask(
        actor=actor,
        source=job.public_id,
        kind=Reservation.Kind.JOB,
        label=f"Job {job.number}",
        amount=guess.usd_high,
        likely=guess.usd,
        rollouts=derived.train_rollouts + derived.validation_rollouts,
        words=f"{agent} · {job.backend} · {job.total_steps:,} train steps, {derived.train_rollouts:,} rollouts{doubts}",
    )
    return answer if isinstance(answer, Approval) else None


def launch_outlook(actor: Actor, derived: Derived, guess: Estimate) -> dict[str, Any]:
    """What a launch would hold and leave, whether an owner has to be asked, and why it would be refused."""
    budget, rollouts = money.budget_get(team=actor.team), derived.train_rollouts + derived.validation_rollouts
    amount = None if guess.usd_high is None else Decimal(str(guess.usd_high)).quantize(CENT, ROUND_CEILING)
    asks, refusal = False, ""
    try:
        asks = usage.reservation_outlook(actor=actor, kind=Reservation.Kind.JOB, amount=amount, rollouts=rollouts)
    except QuotaExceeded as exc:
        refusal = str(exc)
    left = None if budget.left is None else budget.left - (amount or 0)
    over = -left if left is not None and left < 0 else 0
    return {"budget": budget, "amount": amount, "left": left, "over": over, "asks": asks, "refusal": refusal}


def rest_cost(job: Job) -> Decimal | None:
    """What the train steps that are left may cost; None where nothing is priced."""
    rest = max(job.total_steps - job.done_steps, 0)
    spent = costs.job_cost(job)
    if spent is not None and job.done_steps:
        return spent / job.done_steps * rest * REST_MARGIN
    shown = (selectors.launch_estimate(job) or {}).get("usd_high")
    return Decimal(str(shown)) if shown is not None else None


def held_usd(job: Job) -> Decimal | None:
    """What is held for it now."""
    row = money.reservation_find(source=job.public_id)
    return row.held_usd if row and row.status == Reservation.Status.HELD else None


def resume_hold(actor: Actor, job: Job) -> Approval | None:
    """Hold what the rest may cost, or note a request."""
    answer = usage.reservation_ask(
        actor=actor,
        source=job.public_id,
        kind=Reservation.Kind.JOB,
        label=f"Job {job.number}",
        amount=rest_cost(job),
        words=f"{job.baseline.agent_version.agent.name} · goes on after train step {job.done_steps} of {job.total_steps}",
    )
    return answer if isinstance(answer, Approval) else None


def waits_for_approval(job: Job) -> bool:
    return money.approval_waiting(source=job.public_id) is not None


def was_decided(job: Job) -> bool:
    """An owner decided, and the look that obeys it is still to come."""
    return money.approvals_undone().filter(source=job.public_id).exists()


def waiting_note(approval: Approval) -> str:
    return f"Waits for an owner to approve {show_usd(approval.amount_usd)}."


def job_settle(job: Job) -> None:
    """Give back what a resting or ended job does not need, and say how far it went over. Again changes nothing."""
    row = usage.reservation_settle(team=job.team, source=job.public_id)
    if row and row.held_usd is not None and row.spent_usd > row.held_usd:
        over, held = show_usd(row.spent_usd - row.held_usd), show_usd(row.held_usd)
        event_note(job, f"The train step at work could not be stopped: {over} more than the {held} held.", level="warn")


def stop_reason(job: Job) -> str:
    """Why the job must pause for money's sake, or nothing. Looks one train step ahead: that one cannot be stopped."""
    step = costs.last_step(job)
    return money.spend_stop_reason(team=job.team, source=job.public_id, next_usd=step.usd if step else None)


def seconds_until_used_up(job: Job) -> float | None:
    """At the pace of the newest train step, when the last one that fits begins; None where nothing is held or known."""
    row, step = money.reservation_find(source=job.public_id), costs.last_step(job)
    if row is None or row.held_usd is None or step is None or not step.usd:
        return None
    fitting = int((row.held_usd - row.spent_usd) / step.usd)
    return max(fitting - 1, 0) * float(step.quantity)


def stopped(job: Job) -> str:
    """Why nothing of this team may start now."""
    return money.stopped_by(team=job.team)


def settle_forgotten() -> None:
    """Holds of jobs that rest or ended, whose release was lost. One that was just approved is about to go on."""
    held = Reservation.objects.filter(kind=Reservation.Kind.JOB, status=Reservation.Status.HELD)
    soon = money.approvals_undone().values("source")
    resting = Job.objects.filter(public_id__in=held.exclude(source__in=soon).values("source")).filter(
        status__in=[*ENDED, Status.PAUSED]
    )
    for job in resting.select_related("team"):
        with transaction.atomic():
            # Looked at again under its lock: it may have been resumed meanwhile.
            fresh = Job.objects.select_for_update(of=("self",)).select_related("team").get(pk=job.pk)
            if fresh.status in (*ENDED, Status.PAUSED) and not money.approvals_undone().filter(source=job.public_id):
                job_settle(fresh)


def decision_words(approval: Approval) -> str:
    who = approval.decided_by or "An owner"
    verb = "approved" if approval.status == Approval.Status.APPROVED else "declined"
    return f"{who} {verb} {show_usd(approval.amount_usd)}{': ' + approval.reason if approval.reason else '.'}"
