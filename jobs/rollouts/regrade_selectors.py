"""Reads of re-grading runs."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Max, Q, QuerySet, Sum

from graders.models import Grader, GraderVersion
from jobs.rollouts.models import RegradeResult, RegradeRun, Rollout, RolloutBatch
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team

ACTIVE = [RegradeRun.Status.QUEUED, RegradeRun.Status.RUNNING]
SOURCES = 20
CHANGED_ROWS = 100
_GRADABLE = Q(status=Rollout.Status.DONE) | Q(stop_reason=Rollout.StopReason.GRADER_FAILED)
_KINDS = {"evaluation": "Evaluation", "train_step": "Training", "validation": "Validation", "import": "Import",
          "rerun": "Re-run"}  # fmt: skip


def gradable(batches: Iterable[RolloutBatch]) -> QuerySet[Rollout]:
    """Rollouts that a grader can look at: they ended soundly, or failed in the grader alone, and their item is known."""
    return Rollout.objects.filter(_GRADABLE, batch__in=list(batches), item__isnull=False)


def regrade_get(*, team: Team, public_id: str) -> RegradeRun:
    rows = RegradeRun.objects.select_related("grader_version__grader", "team", "created_by")
    run = rows.filter(team=team, public_id=public_id).first()
    if run is None:
        raise NotFound("There is nothing at this address.")
    return run


def regrades_of(*, team: Team, grader: Grader) -> QuerySet[RegradeRun]:
    """Runs with any version of a grader, newest first, counted."""
    done = Q(results__status=RegradeResult.Status.DONE)
    return (
        RegradeRun.objects.filter(team=team, grader_version__grader=grader)
        .select_related("grader_version__grader", "created_by")
        .annotate(
            total=Count("results"),
            done=Count("results", filter=done),
            changed=Count("results", filter=done & Q(results__is_changed=True)),
            spent=Sum("results__cost_usd"),
        )
        .order_by("-pk")
    )


def regrades_without_worker() -> QuerySet[RegradeRun]:
    """Runs at work on which nobody works."""
    running = RegradeResult.objects.filter(status=RegradeResult.Status.RUNNING).values("run_id")
    rows = RegradeRun.objects.filter(status__in=ACTIVE).exclude(pk__in=running)
    return rows.select_related("team").order_by("pk")


def regrade_spent(run: RegradeRun) -> Decimal:
    """Dollars its judges cost so far."""
    return run.results.aggregate(sum=Sum("cost_usd"))["sum"] or Decimal(0)


def regrade_dearest(run: RegradeRun) -> Decimal | None:
    """What the dearest rollout cost; None before the first that cost anything."""
    return run.results.aggregate(most=Max("cost_usd"))["most"]


@dataclass
class Counts:
    """Where a run stands. Means are over rollouts that both gradings could grade."""

    total: int = 0
    done: int = 0
    changed: int = 0
    up: int = 0
    down: int = 0
    newly_graded: int = 0
    newly_ungraded: int = 0
    ungraded: int = 0
    old_mean: float | None = None
    mean: float | None = None
    spent: Decimal | None = None


def regrade_counts(run: RegradeRun) -> Counts:
    done = Q(status=RegradeResult.Status.DONE)
    both = done & Q(reward__isnull=False, old_reward__isnull=False)
    moved = both & Q(is_changed=True)
    found = run.results.aggregate(
        total=Count("pk"),
        done=Count("pk", filter=done),
        changed=Count("pk", filter=done & Q(is_changed=True)),
        up=Count("pk", filter=moved & Q(reward__gt=F("old_reward"))),
        down=Count("pk", filter=moved & Q(reward__lt=F("old_reward"))),
        newly_graded=Count("pk", filter=done & Q(reward__isnull=False, old_reward__isnull=True)),
        newly_ungraded=Count("pk", filter=done & Q(reward__isnull=True, old_reward__isnull=False)),
        ungraded=Count("pk", filter=done & Q(reward__isnull=True)),
        n=Count("pk", filter=both),
        old_sum=Sum("old_reward", filter=both),
        new_sum=Sum("reward", filter=both),
        spent=Sum("cost_usd"),
    )
    n, old, new = found.pop("n"), found.pop("old_sum"), found.pop("new_sum")
    return Counts(**found, old_mean=old / n if n else None, mean=new / n if n else None)


def regrade_rewards(run: RegradeRun) -> list[tuple[float | None, float | None]]:
    """(old, new) of every rollout that was graded again."""
    rows = run.results.filter(status=RegradeResult.Status.DONE)
    return list(rows.values_list("old_reward", "reward"))


def regrade_changed(run: RegradeRun) -> list[RegradeResult]:
    """What changed most, first those that are graded now and were not, or the other way round."""
    rows = run.results.filter(status=RegradeResult.Status.DONE, is_changed=True).select_related("rollout")
    found = list(rows.only("reward", "old_reward", "grade", "rollout__public_id", "rollout__group_key",
                           "rollout__title", "rollout__sample_index", "rollout__answer"))  # fmt: skip
    return sorted(found, key=_by_change)[:CHANGED_ROWS]


def _by_change(row: RegradeResult) -> tuple[bool, float, int]:
    if row.reward is None or row.old_reward is None:
        return False, 0.0, row.pk
    return True, -abs(row.reward - row.old_reward), row.pk


@dataclass
class Source:
    """What was asked for together: an evaluation, a job, an import. `batches` are its batches' keys."""

    key: str
    kind: str
    title: str
    created_at: Any
    batches: list[int] = field(default_factory=list)
    rollouts: int = 0
    left_out: int = 0
    graders: set[str] = field(default_factory=set)


def sources_of(*, team: Team) -> list[Source]:
    """The newest things with rollouts, each with how many can be graded again."""
    rows = RolloutBatch.objects.filter(team=team).exclude(kind=RolloutBatch.Kind.RERUN)
    rows = rows.select_related("agent_version__agent", "dataset_version__dataset", "grader_version__grader")
    found: dict[str, Source] = {}
    for batch in rows.order_by("-pk")[:2000]:
        key = source_key(batch)
        if key not in found:
            if len(found) == SOURCES:
                continue
            found[key] = Source(key, batch.kind, _title(batch), batch.created_at)
        found[key].batches.append(batch.pk)
        if batch.grader_version:
            found[key].graders.add(str(batch.grader_version))
    _count(found)
    return [source for source in found.values() if source.rollouts or source.left_out]


def source_key(batch: RolloutBatch) -> str:
    return f"{batch.kind}:{batch.source or batch.public_id}"


def _title(batch: RolloutBatch) -> str:
    parts = [
        _KINDS.get(batch.kind, batch.kind),
        f"of {batch.policy_label}" if batch.policy_label else "",
        f"· {batch.agent_version}" if batch.agent_version else "",
        f"· {batch.dataset_version}" if batch.dataset_version else "",
    ]
    return " ".join(filter(None, parts))


def _count(found: dict[str, Source]) -> None:
    owner = {pk: source for source in found.values() for pk in source.batches}
    rows = (
        Rollout.objects.filter(batch_id__in=list(owner))
        .values_list("batch_id")
        .annotate(good=Count("pk", filter=_GRADABLE & Q(item__isnull=False)), n=Count("pk"))
        .order_by()
    )
    for batch_id, good, n in rows:
        owner[batch_id].rollouts += good
        owner[batch_id].left_out += n - good


def batches_of(*, team: Team, keys: Iterable[str]) -> list[RolloutBatch]:
    """The batches behind the ticked sources."""
    wanted = set(keys)
    ids = [pk for source in sources_of(team=team) if source.key in wanted for pk in source.batches]
    return list(RolloutBatch.objects.filter(team=team, pk__in=ids).order_by("pk"))


def version_get(*, team: Team, public_id: str) -> GraderVersion:
    row = GraderVersion.objects.select_related("grader", "team").filter(team=team, public_id=public_id).first()
    if row is None:
        raise NotFound("There is nothing at this address.")
    return row
