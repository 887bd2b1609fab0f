"""What a train step's rollouts come to, counted from our own rows, whatever the backend reports. Portable."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jobs.evaluations.metrics import RolloutRow, are_alike


@dataclass(frozen=True)
class StepFigures:
    """One train step as charts and alarms see it. None where nothing was measured."""

    number: int
    mean_reward: float | None = None
    validation_reward: float | None = None
    validation_low: float | None = None
    validation_high: float | None = None
    groups: int = 0
    groups_low: int = 0
    groups_high: int = 0
    groups_alike: int = 0
    ungraded_share: float | None = None
    tokens_mean: float | None = None
    tools: dict[str, float] = field(default_factory=dict)
    sub_rewards: dict[str, float | None] = field(default_factory=dict)
    seconds: float | None = None
    loss: float | None = None
    entropy: float | None = None
    kl: float | None = None
    grad_norm: float | None = None

    @property
    def flat_share(self) -> float | None:
        """Groups whose rewards are all equal ÷ groups."""
        flat = self.groups_low + self.groups_high + self.groups_alike
        return flat / self.groups if self.groups else None


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return sum(values) / len(values) if values else None


def batch_figures(rows: Iterable[RolloutRow], *, pass_threshold: float) -> dict[str, Any]:
    """Groups without signal split by where they stand, ungraded share, tokens, tools and sub-rewards, as JSON."""
    rows = list(rows)
    groups: dict[str, list[RolloutRow]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    counts = {"groups": 0, "groups_low": 0, "groups_high": 0, "groups_alike": 0}
    best = max((row.reward for row in rows if row.is_graded), default=0.0)
    for group in groups.values():
        rewards = [row.reward for row in group if row.is_graded]
        if len(rewards) < 2:
            continue
        counts["groups"] += 1
        if are_alike(rewards):
            if not any(row.passes(pass_threshold) for row in group):
                counts["groups_low"] += 1
            elif rewards[0] >= best - 1e-9 or all(row.passes(pass_threshold) for row in group):
                counts["groups_high"] += 1
            else:
                counts["groups_alike"] += 1
    graded = [row for row in rows if row.is_graded]
    names = sorted({name for row in graded for name in row.sub_rewards})
    tools: dict[str, int] = defaultdict(int)
    for row in rows:
        for use in row.tools:
            tools[use.name] += 1
    return {
        **counts,
        "rollouts": len(rows),
        "graded": len(graded),
        "mean_reward": _mean(row.reward for row in graded),
        "ungraded_share": (len(rows) - len(graded)) / len(rows) if rows else None,
        "tokens_mean": _mean(row.output_tokens for row in rows),
        "tools": {name: count / len(rows) for name, count in sorted(tools.items())},
        "sub_rewards": {
            name: _mean(value for row in graded if (value := row.sub_rewards.get(name)) is not None) for name in names
        },
    }
