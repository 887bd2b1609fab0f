"""The ladder of an agent: its versions with what each scored, and what training added on top.

Evaluations lie in a room above and point at versions by their own key; this reads their figures through it and knows
nothing else of them. Only alike ones are set beside each other: the same dataset, split and grader.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jobs.agents.models import AgentVersion

_COLUMNS = {
    "public_id": "evaluations__public_id",
    "metrics": "evaluations__metrics",
    "model": "evaluations__model_id",
    "label": "evaluations__policy_label",
    "dataset": "evaluations__dataset_version__dataset__name",
    "split": "evaluations__split",
    "grader": "evaluations__grader_version__grader__name",
    "dataset_id": "evaluations__dataset_version__dataset_id",
    "grader_id": "evaluations__grader_version__grader_id",
}


@dataclass(frozen=True)
class Rung:
    """One version, or its model after training; figures are None before the first evaluation."""

    version: AgentVersion
    is_trained: bool = False
    label: str = ""  # which weights acted, where they are not the version's own
    evaluation: str = ""  # public id
    mean_reward: float | None = None
    low: float | None = None
    high: float | None = None
    pass_rate: float | None = None
    step: float | None = None  # change of the mean reward against the rung below


@dataclass(frozen=True)
class Ladder:
    """Rungs, newest first, and what their scores were measured on, in words."""

    rungs: list[Rung] = field(default_factory=list)
    measure: str = ""


def ladder(versions: list[AgentVersion]) -> Ladder:
    """Each version with its newest finished evaluation of the kind that was run last, and above it the trained one."""
    ids = [version.pk for version in versions]
    rows = AgentVersion.objects.filter(pk__in=ids, evaluations__status="succeeded").order_by("evaluations__id")
    found = [dict(zip(["pk", *_COLUMNS], row, strict=True)) for row in rows.values_list("pk", *_COLUMNS.values())]
    if not found:
        return Ladder([Rung(version) for version in versions])
    alike = [row for row in found if _measure(row) == _measure(found[-1])]
    rungs: list[Rung] = []
    for version in reversed(versions):
        own = _newest(row for row in alike if row["pk"] == version.pk and row["model"] == version.model_id)
        trained = _newest(row for row in alike if row["pk"] == version.pk and row["model"] != version.model_id)
        rungs.append(_rung(version, own, rungs))
        if trained:
            rungs.append(_rung(version, trained, rungs, is_trained=True))
    last = found[-1]
    return Ladder(rungs[::-1], f"{last['dataset']}, {last['split']} items, graded by {last['grader']}")


def _measure(row: dict[str, Any]) -> tuple[int, str, int]:
    return row["dataset_id"], row["split"], row["grader_id"]


def _newest(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return ([{}, *rows])[-1]


def _rung(version: AgentVersion, row: dict[str, Any], below: list[Rung], *, is_trained: bool = False) -> Rung:
    metrics = row.get("metrics") or {}
    mean = metrics.get("mean_reward")
    last = next((rung.mean_reward for rung in reversed(below) if rung.mean_reward is not None), None)
    return Rung(
        version,
        is_trained,
        row.get("label", "") if is_trained else "",
        row.get("public_id", ""),
        mean,
        metrics.get("mean_reward_low"),
        metrics.get("mean_reward_high"),
        metrics.get("pass_rate"),
        None if mean is None or last is None else mean - last,
    )
