"""Puts re-graded rewards in the place of an evaluation's own, on a person's word. What a trainer used is never touched."""

from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from graders.types import is_pass
from jobs.rollouts import regrade_selectors as selectors
from jobs.rollouts.cleaning import clean, clean_json, finite
from jobs.rollouts.models import RegradeResult, RegradeRun, Rollout, RolloutBatch, Step
from rftstudio.core.errors import Conflict
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

_OPEN = (Rollout.Status.QUEUED, Rollout.Status.RUNNING)


def adoptable(run: RegradeRun) -> list[RolloutBatch]:
    """The evaluations of an ended run whose every gradable rollout was graded again: rewards of two graders never mix."""
    if run.status != RegradeRun.Status.SUCCEEDED or run.adopted_at:
        return []
    done = dict(
        RegradeResult.objects.filter(run=run, status=RegradeResult.Status.DONE)
        .values_list("rollout__batch_id")
        .annotate(n=Count("pk"))
        .order_by()
    )
    evaluations = run.batches.filter(kind=RolloutBatch.Kind.EVALUATION).order_by("pk")
    return [
        batch
        for batch in evaluations
        if done.get(batch.pk)
        and done[batch.pk] == selectors.gradable([batch]).count()
        and not batch.rollouts.filter(status__in=_OPEN).exists()
    ]


@transaction.atomic
def regrade_adopt(*, actor: Actor, run: RegradeRun) -> int:
    """Let the new rewards count for the run's evaluations; returns how many rollouts have another reward now.

    What each rollout held before stays in its result. Evaluations compute their metrics anew when they next look.
    """
    check_can(actor, Permission.EVALUATION_RUN, team=run.team)
    row = RegradeRun.objects.select_for_update(of=("self",)).select_related("grader_version").get(pk=run.pk)
    if row.adopted_at:
        return 0
    batches = adoptable(row)
    if not batches:
        raise Conflict(
            "There is no evaluation here whose every rollout was graded again.",
            fix="Re-grade whole evaluations; rewards that a trainer used stay as they were.",
        )
    if not row.results.filter(rollout__batch__in=batches, reward__isnull=False).exists():
        raise Conflict("No rollout could be graded, so there is nothing to adopt.", fix="Mend the grader first.")
    changed = sum(_adopt_batch(actor, row, batch) for batch in batches)
    row.adopted_at = timezone.now()
    row.save(update_fields=["adopted_at", "updated_at"])
    return changed


def _adopt_batch(actor: Actor, run: RegradeRun, batch: RolloutBatch) -> int:
    version = run.grader_version
    rows = run.results.filter(rollout__batch=batch, status=RegradeResult.Status.DONE)
    changed = 0
    for result in rows.select_related("rollout").prefetch_related("rollout__steps").iterator(chunk_size=200):
        _adopt_result(result, version.pass_threshold)
        changed += result.is_changed
    audit(
        actor, "regrade.adopted", run, batch=batch.public_id, source=batch.source, changed=changed,
        before=batch.grader_version.public_id if batch.grader_version else "", after=version.public_id,
    )  # fmt: skip
    batch.grader_version, batch.pass_threshold = version, version.pass_threshold
    batch.save(update_fields=["grader_version", "pass_threshold", "updated_at"])
    return changed


def _adopt_result(result: RegradeResult, pass_threshold: float) -> None:
    rollout = result.rollout
    steps = sorted(rollout.steps.all(), key=lambda step: step.index)
    fields = ("reward", "passed", "sub_rewards", "grade", "status", "stop_reason", "error")
    replaced = {name: getattr(rollout, name) for name in fields}
    replaced["step_rewards"] = [step.step_reward for step in steps]
    Rollout.objects.filter(pk=rollout.pk).update(**_columns(result, steps, pass_threshold))
    marks = result.grade.get("step_rewards") or []
    for place, step in enumerate(steps):
        mark = finite(marks[place]) if place < len(marks) else None
        if mark != step.step_reward:
            Step.objects.filter(pk=step.pk).update(step_reward=mark)
    RegradeResult.objects.filter(pk=result.pk).update(replaced=replaced)


def _columns(result: RegradeResult, steps: list[Step], pass_threshold: float) -> dict[str, Any]:
    """A rollout that can be graded now is done; one that cannot failed in the grader, as if it had just run."""
    grade, reward, rollout = result.grade, result.reward, result.rollout
    status, reason, error = rollout.status, rollout.stop_reason, rollout.error
    if reward is None:
        status, reason = Rollout.Status.FAILED, Rollout.StopReason.GRADER_FAILED
        error = clean(str(grade.get("details") or "The grader gave no number."))
    elif reason == Rollout.StopReason.GRADER_FAILED:
        is_cut = bool(steps and steps[-1].tool_calls)
        status, error = Rollout.Status.DONE, ""
        reason = Rollout.StopReason.MAX_STEPS if is_cut else Rollout.StopReason.ANSWERED
    return {
        "reward": reward,
        "passed": None if reward is None else is_pass(reward, pass_threshold),
        "sub_rewards": clean_json(grade.get("sub_rewards") or {}),
        "grade": grade,
        "status": status,
        "stop_reason": reason,
        "error": error,
    }
