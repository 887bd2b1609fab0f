"""Re-grading: stored rollouts graded again with another grader version, in the background and within a budget.

What comes out is a table of its own. Only `regrade_adopt` (regrade_adopting.py) puts it in the place of rewards, for whole evaluations.
"""

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from graders.models import GraderVersion
from graders.selectors import models_of
from jobs.rollouts import regrade_selectors as selectors
from jobs.rollouts import tasks
from jobs.rollouts.cleaning import clean_json, finite
from jobs.rollouts.models import RegradeResult, RegradeRun, RolloutBatch
from rftstudio.core.errors import Conflict, NotFound, UserError
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage import services as usage
from rftstudio.usage.models import Reservation, Unit
from rftstudio.usage.selectors import price_at

Status, ResultStatus = RegradeRun.Status, RegradeResult.Status
LEASE = timedelta(seconds=60)
MAX_ATTEMPTS = 3
MOST_ROLLOUTS = 20_000
WAKE_EXPIRES = 30
SAME = 1e-9  # rewards that differ by less are the same
_LOST = f"The worker that graded this rollout was lost {MAX_ATTEMPTS} times."


@transaction.atomic
def regrade_start(
    *,
    actor: Actor,
    grader_version: GraderVersion,
    batches: Iterable[RolloutBatch],
    max_rollouts: int | None = None,
    cap_usd: Decimal | None = None,
) -> RegradeRun:
    """Order the batches' rollouts graded again, newest first. Asked twice while it runs, the same run is answered."""
    check_can(actor, Permission.EVALUATION_RUN, team=grader_version.team)
    batches = sorted(set(batches), key=lambda batch: batch.pk)
    if not batches:
        raise UserError("No rollouts were chosen.", where="sources", fix="Tick at least one evaluation or job.")
    if any(batch.team_id != actor.team.pk for batch in batches):
        raise NotFound("There is nothing at this address.")
    _check_budget(grader_version, max_rollouts, cap_usd)
    if found := _running_already(grader_version, batches):
        return found
    rows = selectors.gradable(batches).order_by("-pk").values_list("pk", flat=True)
    ids = list(rows[: min(max_rollouts or MOST_ROLLOUTS, MOST_ROLLOUTS)])
    if not ids:
        raise UserError(
            "None of these rollouts can be graded again: they have not ended, or their item is not known.",
            where="sources",
            fix="Choose others.",
        )
    run = RegradeRun.objects.create(
        team=actor.team,
        created_by=actor.user,
        grader_version=grader_version,
        graded_before=_words_of(batches),
        max_rollouts=max_rollouts,
        cap_usd=cap_usd,
    )
    run.batches.set(batches)
    RegradeResult.objects.bulk_create((RegradeResult(run=run, rollout_id=pk) for pk in ids), batch_size=1000)
    _hold(actor, run, cap_usd)
    audit(
        actor, "regrade.started", run, version=grader_version.public_id, rollouts=len(ids), cap_usd=str(cap_usd or "")
    )
    queue(tasks.regrade_run, run.pk)
    return run


def _check_budget(version: GraderVersion, max_rollouts: int | None, cap_usd: Decimal | None) -> None:
    if max_rollouts is not None and not 1 <= max_rollouts <= MOST_ROLLOUTS:
        raise UserError(
            f"{max_rollouts} rollouts in one run are not possible.", where="max_rollouts",
            fix=f"Choose 1 to {MOST_ROLLOUTS:,}; several runs may follow each other.",
        )  # fmt: skip
    if cap_usd is None:
        return
    if cap_usd <= 0:
        raise UserError("The most it may cost is a sum above 0.", where="cap_usd", fix="Leave it empty for no limit.")
    now = timezone.now()
    for model in sorted(models_of(version.config)):
        if None in [price_at(unit=unit, subject=model, at=now) for unit in (Unit.INPUT_TOKEN, Unit.OUTPUT_TOKEN)]:
            raise UserError(
                f"There is no price for {model}, so a limit in dollars could not be kept.", where="cap_usd",
                fix="Limit the number of rollouts instead, or ask for a price.",
            )  # fmt: skip


def _hold(actor: Actor, run: RegradeRun, usd: Decimal | None) -> None:
    """Set the judges' money aside, or refuse at a quota or a stop. A grader without judges spends nothing."""
    if models_of(run.grader_version.config):
        usage.reservation_hold(
            actor=actor,
            source=run.public_id,
            kind=Reservation.Kind.EVALUATION,
            label=f"Re-grading with {run.grader_version}"[:160],
            amount=usd,
        )


@transaction.atomic
def _stop(run: RegradeRun, status: str, note: str = "", among: Iterable[str] = selectors.ACTIVE) -> bool:
    """End or pause a run and give back what it did not spend; False when it had stopped before."""
    ended = None if status == Status.PAUSED else timezone.now()
    found = RegradeRun.objects.filter(pk=run.pk, status__in=list(among))
    if not found.update(status=status, note=note, finished_at=ended):
        return False
    usage.reservation_settle(team=run.team, source=run.public_id)
    return True


def _running_already(version: GraderVersion, batches: list[RolloutBatch]) -> RegradeRun | None:
    """The same order, still at work: a button pressed twice."""
    wanted = {batch.pk for batch in batches}
    for run in RegradeRun.objects.filter(grader_version=version, status__in=selectors.ACTIVE).prefetch_related(
        "batches"
    ):
        if {batch.pk for batch in run.batches.all()} == wanted:
            return run
    return None


def _words_of(batches: list[RolloutBatch]) -> str:
    ids = {batch.grader_version_id for batch in batches if batch.grader_version_id}
    versions = GraderVersion.objects.filter(pk__in=ids).select_related("grader").order_by("pk")
    names = [str(version) for version in versions[:3]]
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    return (" · ".join(names) + more or "no grader")[:200]


def regrade_run(*, run_id: int, seconds: float = 10.0) -> int:
    """One slice of a run: grade for about so long, then leave the rest to the next task; returns how many were graded.

    Safe to call twice and at the same time: a lease decides who grades which rollout, and what was stored stays.
    """
    from jobs.rollouts.regrade_turn import run_turn

    run = RegradeRun.objects.select_related("team", "grader_version__team").filter(pk=run_id).first()
    if run is None or run.status not in selectors.ACTIVE:
        return 0
    RegradeRun.objects.filter(pk=run.pk, status=Status.QUEUED).update(status=Status.RUNNING, started_at=timezone.now())
    count = run_turn(run, seconds=seconds)
    _settle(run)
    return count


def _settle(run: RegradeRun) -> None:
    """End the run when all is graded; wake the next slice when something waits."""
    left = set(run.results.exclude(status=ResultStatus.DONE).values_list("status", flat=True))
    if not left:
        _stop(run, Status.SUCCEEDED)
    elif ResultStatus.QUEUED in left and RegradeRun.objects.filter(pk=run.pk, status__in=selectors.ACTIVE).exists():
        queue(tasks.regrade_run, run.pk)


@transaction.atomic
def results_claim(run: RegradeRun, count: int) -> list[RegradeResult]:
    """Take up to `count` waiting rollouts; two workers never get the same one."""
    if count < 1:
        return []
    waiting = RegradeResult.objects.filter(run=run, status=ResultStatus.QUEUED).order_by("pk")
    if connection.features.has_select_for_update_skip_locked:
        waiting = waiting.select_for_update(skip_locked=True)
    ids = list(waiting.values_list("pk", flat=True)[:count])
    RegradeResult.objects.filter(pk__in=ids).update(
        status=ResultStatus.RUNNING, lease_until=timezone.now() + LEASE, attempt=F("attempt") + 1
    )
    rows = RegradeResult.objects.filter(pk__in=ids).select_related("rollout__item", "rollout__batch__agent_version")
    return list(rows.prefetch_related("rollout__steps").order_by("pk"))


def results_renew(ids: Iterable[int]) -> None:
    rows = RegradeResult.objects.filter(pk__in=list(ids), status=ResultStatus.RUNNING)
    rows.update(lease_until=timezone.now() + LEASE)


def results_hand_back(ids: Iterable[int]) -> None:
    """Return rows that were claimed and cannot be graded now."""
    rows = RegradeResult.objects.filter(pk__in=list(ids), status=ResultStatus.RUNNING)
    rows.update(status=ResultStatus.QUEUED, lease_until=None)


def regrade_pause(*, run: RegradeRun, note: str) -> None:
    """Stop at the budget; what was graded stays."""
    _stop(run, Status.PAUSED, note)


def regrade_fail(*, run: RegradeRun, note: str) -> None:
    _stop(run, Status.FAILED, note)


@transaction.atomic
def regrade_resume(*, actor: Actor, run: RegradeRun, cap_usd: Decimal | None) -> RegradeRun:
    """Go on with a run that stopped at its budget, under a higher one or none."""
    check_can(actor, Permission.EVALUATION_RUN, team=run.team)
    row = (
        RegradeRun.objects.select_for_update(of=("self",))
        .select_related("grader_version__grader", "team")
        .get(pk=run.pk)
    )
    if row.status != Status.PAUSED:
        raise Conflict("This run does not wait for a higher limit.", fix="Start another one.")
    _check_budget(row.grader_version, None, cap_usd)
    spent = selectors.regrade_spent(row)
    if cap_usd is not None and cap_usd <= spent:
        raise UserError("That much is spent already.", where="cap_usd", fix=f"Allow more than ${spent:.2f}.")
    row.cap_usd, row.status, row.note = cap_usd, Status.RUNNING, ""
    row.save(update_fields=["cap_usd", "status", "note", "updated_at"])
    _hold(actor, row, None if cap_usd is None else cap_usd - spent)
    audit(actor, "regrade.resumed", row, cap_usd=str(cap_usd or ""))
    queue(tasks.regrade_run, row.pk)
    return row


@transaction.atomic
def regrade_cancel(*, actor: Actor, run: RegradeRun) -> RegradeRun:
    """Stop for good; what was graded stays to be looked at."""
    check_can(actor, Permission.EVALUATION_RUN, team=run.team)
    if not _stop(run, Status.CANCELLED, f"Cancelled by {actor.name}.", [*selectors.ACTIVE, Status.PAUSED]):
        raise Conflict("This run has ended; there is nothing to cancel.")
    run.refresh_from_db()
    audit(actor, "regrade.cancelled", run)
    return run


def regrades_sweep() -> int:
    """Free rollouts of dead workers, wake workers for runs that wait, end runs that are through; returns how many were
    freed."""
    expired = RegradeResult.objects.filter(status=ResultStatus.RUNNING, lease_until__lt=timezone.now())
    for row in expired.filter(attempt__gte=MAX_ATTEMPTS).select_related("rollout"):
        grade = {"reward": None, "errors": {"other_error": True}, "details": _LOST}
        result_store(row, grade=grade, cost_usd=None)
    freed = expired.update(status=ResultStatus.QUEUED, lease_until=None)
    for run in selectors.regrades_without_worker():
        if run.results.filter(status=ResultStatus.QUEUED).exists():
            tasks.regrade_run.apply_async((run.pk,), expires=WAKE_EXPIRES)
        else:
            _settle(run)
    return freed


def result_store(row: RegradeResult, *, grade: dict[str, Any], cost_usd: Decimal | None) -> bool:
    """Keep what a claimed rollout got; False when it was claimed by someone else meanwhile."""
    held = RegradeResult.objects.filter(pk=row.pk, status=ResultStatus.RUNNING, attempt=row.attempt)
    old, new = row.rollout.reward, finite(grade.get("reward"))
    return (
        held.update(
            status=ResultStatus.DONE,
            lease_until=None,
            old_reward=old,
            reward=new,
            grade=clean_json(grade),
            is_changed=(old is None) != (new is None) or abs((old or 0.0) - (new or 0.0)) > SAME,
            cost_usd=cost_usd,
        )
        == 1
    )
