"""Two evaluations item by item: paired differences with a bootstrap interval. Portable."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from jobs.evaluations.intervals import LEVEL
from jobs.evaluations.metrics import RolloutRow

RESAMPLES = 2000


@dataclass(frozen=True)
class Pair:
    """One item in both evaluations."""

    key: str
    title: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class Comparison:
    """What changed. The interval is of the mean change over items that both have."""

    pairs: list[Pair]
    mean_change: float | None
    low: float | None
    high: float | None
    better: int
    worse: int
    same: int
    only_before: int
    only_after: int

    @property
    def is_clear(self) -> bool:
        """The interval excludes zero."""
        return self.low is not None and (self.low > 0 or self.high < 0)

    @property
    def sentence(self) -> str:
        if self.mean_change is None:
            return "The two have no graded item in common, so they cannot be compared."
        if not self.is_clear:
            return "The difference could be chance: its interval includes zero."
        return "Better beyond chance." if self.mean_change > 0 else "Worse beyond chance."


def bootstrap_interval(values: list[float], *, seed: int = 0, resamples: int = RESAMPLES) -> tuple[float, float] | None:
    """Percentile interval of the mean; None below two values. The same seed gives the same interval."""
    if len(values) < 2:
        return None
    source, count = random.Random(seed), len(values)  # noqa: S311
    means = sorted(sum(source.choices(values, k=count)) / count for _ in range(resamples))
    cut = (1 - LEVEL) / 2
    return means[int(cut * resamples)], means[min(resamples - 1, int((1 - cut) * resamples))]


def _means(rows: Iterable[RolloutRow], value: Callable[[RolloutRow], float]) -> dict[str, tuple[str, float]]:
    groups: dict[str, list[RolloutRow]] = defaultdict(list)
    for row in rows:
        if row.is_graded:
            groups[row.group].append(row)
    return {
        key: (next((row.title for row in group if row.title), key), sum(map(value, group)) / len(group))
        for key, group in groups.items()
    }


def compare(
    before: Iterable[RolloutRow], after: Iterable[RolloutRow], *, value: Callable[[RolloutRow], float] | None = None
) -> Comparison:
    """Paired by item key; `value` is the reward unless something else is compared (1.0 for a pass, for instance)."""
    value = value or (lambda row: row.reward)
    first, second = _means(before, value), _means(after, value)
    pairs = [Pair(key, title, mean, second[key][1]) for key, (title, mean) in first.items() if key in second]
    changes = [pair.change for pair in pairs]
    interval = bootstrap_interval(changes)
    return Comparison(
        pairs=sorted(pairs, key=lambda pair: (pair.change, pair.key)),
        mean_change=sum(changes) / len(changes) if changes else None,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        better=sum(change > 1e-9 for change in changes),
        worse=sum(change < -1e-9 for change in changes),
        same=sum(abs(change) <= 1e-9 for change in changes),
        only_before=len(first.keys() - second.keys()),
        only_after=len(second.keys() - first.keys()),
    )


def pivot(rows: Iterable[RolloutRow], tag_of: dict[str, Any], *, pass_threshold: float) -> list[dict[str, Any]]:
    """Mean reward and pass rate for each value of a tag (item key → value); items without it stand under None."""
    groups: dict[Any, list[RolloutRow]] = defaultdict(list)
    for row in rows:
        groups[tag_of.get(row.group)].append(row)
    lines = []
    for tag, group in groups.items():
        graded = [row for row in group if row.is_graded]
        lines.append(
            {
                "tag": tag,
                "n_items": len({row.group for row in group}),
                "rollouts": len(group),
                "graded": len(graded),
                "mean_reward": sum(row.reward for row in graded) / len(graded) if graded else None,
                "pass_rate": sum(row.passes(pass_threshold) for row in graded) / len(graded) if graded else None,
            }
        )
    return sorted(lines, key=lambda line: (line["tag"] is None, -line["rollouts"], str(line["tag"])))
