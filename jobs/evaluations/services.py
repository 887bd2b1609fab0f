"""Writes about evaluations: start, settle, cancel."""

import logging
import random
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from datasets.models import DatasetVersion, Item
from graders.gaming import gaming_results
from graders.models import GraderVersion
from graders.services import grader_compiled
from graders.validation import is_costly
from jobs.agents.models import AgentVersion, ModelEndpoint
from jobs.evaluations import costs, selectors
from jobs.evaluations.metrics import compute_metrics
from jobs.evaluations.models import Evaluation
from jobs.rollouts import services as rollout_services
from jobs.rollouts.models import Rollout, RolloutBatch
from rftstudio.core.errors import Conflict, NotFound, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

logger = logging.getLogger(__name__)
Status = Evaluation.Status
MOST_SAMPLES = 64
#: Items on which the cheap tricks are tried.
TRICK_ITEMS = 10


def _items_of(version: DatasetVersion, split: str, max_items: int | None, seed: int) -> list[Item]:
    """The split's items in order; a sample drawn by the seed when fewer are wanted."""
    items = list(Item.objects.filter(version=version, split=split).order_by("position"))
    if max_items is not None and max_items < len(items):
        items = sorted(random.Random(seed).sample(items, max_items), key=lambda item: item.position)  # noqa: S311
    return items


def _check_order(actor: Actor, rows: list[Any], version: DatasetVersion, samples: int, max_items: int | None) -> None:
    for row in rows:
        if row.team_id != actor.team.pk:
            raise NotFound("There is nothing at this address.")
    if version.status != DatasetVersion.Status.FROZEN:
        raise Conflict(
            f"{version} is not frozen, so its items may still change.",
            where="dataset_version",
            fix="Freeze the version, then evaluate it.",
        )
    if not 1 <= samples <= MOST_SAMPLES:
        raise UserError(
            f"{samples} rollouts for each item are not possible.",
            where="samples_per_item",
            fix=f"Choose 1 to {MOST_SAMPLES}; 4 or 8 show how rewards differ within an item.",
        )
    if max_items is not None and max_items < 1:
        raise UserError(f"{max_items} items are not possible.", where="max_items", fix="Choose 1 or more.")


def next_number(team: Team) -> int:
    """The team's next evaluation number. The team's row is held, so two starts at once differ."""
    Team.objects.select_for_update().get(pk=team.pk)
    return (Evaluation.objects.filter(team=team).aggregate(last=Max("number"))["last"] or 0) + 1


@transaction.atomic
def evaluation_start(
    *,
    actor: Actor,
    dataset_version: DatasetVersion,
    agent_version: AgentVersion,
    grader_version: GraderVersion,
    split: str = "test",
    model: ModelEndpoint | None = None,
    samples_per_item: int = 4,
    max_items: int | None = None,
    seed: int = 0,
    policy_label: str = "",
) -> Evaluation:
    """Hold the money, order n rollouts for each item of a split and queue them."""
    check_can(actor, Permission.EVALUATION_RUN, team=actor.team)
    model = model or agent_version.model
    _check_order(
        actor, [dataset_version, agent_version, grader_version, model], dataset_version, samples_per_item, max_items
    )
    items = _items_of(dataset_version, split, max_items, seed)
    if not items:
        raise UserError(
            f"{dataset_version} has no {split} items.",
            where="split",
            fix="Choose another split, or split the dataset again.",
        )
    evaluation = Evaluation(
        team=actor.team,
        created_by=actor.user,
        number=next_number(actor.team),
        dataset_version=dataset_version,
        split=split,
        agent_version=agent_version,
        grader_version=grader_version,
        model=model,
        policy_label=policy_label or model.name,
        samples_per_item=samples_per_item,
        max_items=max_items,
        pass_threshold=grader_version.pass_threshold,
        seed=seed,
    )
    evaluation.batch = rollout_services.batch_create(
        actor=actor,
        kind=RolloutBatch.Kind.EVALUATION,
        source=evaluation.public_id,
        items=items,
        samples_per_item=samples_per_item,
        agent_version=agent_version,
        grader_version=grader_version,
        model=model,
        policy_label=evaluation.policy_label,
        pass_threshold=grader_version.pass_threshold,
        seed=seed,
    )
    evaluation.save()
    costs.evaluation_hold(actor=actor, evaluation=evaluation, rollouts=len(items) * samples_per_item)
    audit(actor, "evaluation.started", evaluation, items=len(items), samples_per_item=samples_per_item, split=split)
    return evaluation


def _gaming(evaluation: Evaluation) -> dict[str, Any] | None:
    """Cheap tricks against the grader, where grading costs nothing."""
    if is_costly(evaluation.grader_version.config):
        return None
    items = Item.objects.filter(version=evaluation.dataset_version, split=evaluation.split).order_by("position")
    rows = [(item.key, item.data) for item in items[:TRICK_ITEMS]]
    with grader_compiled(evaluation.grader_version) as compiled:
        results = gaming_results(compiled, rows, pass_mark=evaluation.pass_threshold)
    passing = [result for result in results if result.passes]
    return {
        "tried": sum(not result.trick.is_fair and result.graded > 0 for result in results),
        "passed": [result.trick.title[0].lower() + result.trick.title[1:] for result in passing],
        "examples": [
            {"trick": result.trick.key, "item": result.item_key, "answer": result.example[:400]} for result in passing
        ],
    }


def _is_still_going(evaluation: Evaluation) -> bool:
    """Whether rollouts are open; notes the start when the first one moves."""
    rollouts = Rollout.objects.filter(batch=evaluation.batch)
    is_open = rollouts.filter(status__in=[Rollout.Status.QUEUED, Rollout.Status.RUNNING]).exists()
    if is_open and evaluation.status == Status.QUEUED and rollouts.exclude(status=Rollout.Status.QUEUED).exists():
        Evaluation.objects.filter(pk=evaluation.pk, status=Status.QUEUED).update(
            status=Status.RUNNING, started_at=timezone.now()
        )
    return is_open


def evaluation_settle(*, evaluation: Evaluation) -> bool:
    """Compute the metrics once every rollout has ended. True when this call ended the evaluation."""
    if evaluation.status not in selectors.ACTIVE or _is_still_going(evaluation):
        return False
    rows = selectors.batch_rows(evaluation.batch)
    metrics = compute_metrics(rows, pass_threshold=evaluation.pass_threshold)
    error = ""
    if not metrics["graded"]:
        causes = metrics["failures"]
        why = f"{causes[0]['cause'].replace('_', ' ')}: {causes[0]['example']}" if causes else "none was run"
        error = f"None of {metrics['rollouts']} rollouts has a reward. Most often {why}"
    elif (tricks := _gaming(evaluation)) is not None:
        metrics["gaming"] = tricks
    return _finish(evaluation, Status.FAILED if error else Status.SUCCEEDED, metrics, error)


def _finish(evaluation: Evaluation, status: str, metrics: dict[str, Any], error: str = "") -> bool:
    started = (
        Rollout.objects.filter(batch=evaluation.batch, started_at__isnull=False)
        .order_by("started_at")
        .values_list("started_at", flat=True)
        .first()
    )
    now = timezone.now()
    with transaction.atomic():
        ended = Evaluation.objects.filter(pk=evaluation.pk, status__in=selectors.ACTIVE).update(
            status=status,
            metrics=metrics,
            error=error,
            finished_at=now,
            started_at=evaluation.started_at or started or now,
        )
        if ended:
            costs.evaluation_release(evaluation)
    if ended:
        evaluation.refresh_from_db()
        Evaluation.objects.filter(pk=evaluation.pk).update(readiness=selectors.readiness_of(evaluation))
    evaluation.refresh_from_db()
    return bool(ended)


def evaluation_follow_batch(*, evaluation: Evaluation) -> bool:
    """Sum up again what was re-graded: the new rewards were adopted below, where nobody knows of evaluations."""
    batch, status = evaluation.batch, evaluation.status
    metrics = compute_metrics(selectors.batch_rows(batch), pass_threshold=batch.pass_threshold)
    if status != Status.CANCELLED:
        status = Status.SUCCEEDED if metrics["graded"] else Status.FAILED
    moved = Evaluation.objects.filter(pk=evaluation.pk, grader_version=evaluation.grader_version_id).update(
        grader_version=batch.grader_version,
        pass_threshold=batch.pass_threshold,
        metrics=metrics,
        status=status,
        error="" if status == Status.SUCCEEDED else evaluation.error,
    )
    evaluation.refresh_from_db()
    if moved:
        if (tricks := _gaming(evaluation)) is not None:
            evaluation.metrics["gaming"] = tricks
            Evaluation.objects.filter(pk=evaluation.pk).update(metrics=evaluation.metrics)
        Evaluation.objects.filter(pk=evaluation.pk).update(readiness=selectors.readiness_of(evaluation))
    return bool(moved)


def evaluations_settle() -> int:
    """Finish every evaluation that is ready. One that breaks does not hold up the others."""
    count = 0
    for evaluation in selectors.evaluations_regraded():
        try:
            evaluation_follow_batch(evaluation=evaluation)
        except Exception:
            logger.exception("Evaluation %s could not follow its re-graded rollouts", evaluation.public_id)
    for evaluation in selectors.evaluations_unsettled():
        try:
            if evaluation_settle(evaluation=evaluation):
                count += 1
            elif reason := costs.stop_reason(evaluation):
                count += _stop(evaluation, reason)
        except Exception:
            logger.exception("Evaluation %s could not be settled", evaluation.public_id)
    costs.release_forgotten()
    return count


def evaluation_cancel(*, actor: Actor, evaluation: Evaluation) -> Evaluation:
    """Stop the open rollouts; what has ended stays and is summed up."""
    check_can(actor, Permission.EVALUATION_RUN, team=evaluation.team)
    if evaluation.status not in selectors.ACTIVE:
        raise Conflict(f"Evaluation {evaluation.number} has ended ({evaluation.status}); there is nothing to cancel.")
    if _stop(evaluation, f"Cancelled by {actor.name}."):
        audit(actor, "evaluation.cancelled", evaluation, ended=evaluation.metrics["rollouts"])
    return evaluation


def _stop(evaluation: Evaluation, reason: str) -> bool:
    """End what is open, sum up what has ended."""
    rollout_services.batch_cancel(batch=evaluation.batch)
    rows = selectors.batch_rows(evaluation.batch)
    metrics = compute_metrics(rows, pass_threshold=evaluation.pass_threshold)
    return _finish(evaluation, Status.CANCELLED, metrics, reason)
