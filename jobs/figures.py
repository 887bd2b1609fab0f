"""What a train step's rollouts come to, counted from our own rows, whatever the backend reports. Portable."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import correlation
from typing import Any

from jobs.evaluations.intervals import mean_interval
from jobs.evaluations.metrics import RolloutRow, are_alike


@dataclass(frozen=True)
class StepFigures:
    """One train step as charts and alarms see it. None where nothing was measured."""

    number: int
    mean_reward: float | None = None
    reward_low: float | None = None
    reward_high: float | None = None
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
    validation_sub_rewards: dict[str, float | None] = field(default_factory=dict)
    decides: dict[str, float] = field(default_factory=dict)
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
    tools: dict[str, int] = defaultdict(int)
    for row in rows:
        for use in row.tools:
            tools[use.name] += 1
    return {
        **counts,
        "rollouts": len(rows),
        "graded": len(graded),
        "mean_reward": _mean(row.reward for row in graded),
        "interval": reward_interval(rows),
        "ungraded_share": (len(rows) - len(graded)) / len(rows) if rows else None,
        "tokens_mean": _mean(row.output_tokens for row in rows),
        "tools": {name: count / len(rows) for name, count in sorted(tools.items())},
        "sub_rewards": sub_reward_means(graded),
        "decides": _decides(graded),
    }


def reward_interval(rows: Iterable[RolloutRow]) -> tuple[float, float] | None:
    """90 % interval of the mean reward, items as clusters."""
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.is_graded:
            groups[row.group].append(row.reward)
    return mean_interval(list(groups.values()))


def sub_reward_means(rows: Iterable[RolloutRow]) -> dict[str, float | None]:
    """Each sub-reward's mean over the graded rollouts that have it."""
    values: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.sub_rewards.items():
            if row.is_graded and value is not None:
                values[name].append(value)
    return {name: _mean(values[name]) for name in sorted(values)}


def _decides(graded: list[RolloutRow]) -> dict[str, float]:
    """For each sub-reward how much of the differences in reward it explains alone: the squared correlation, 0 to 1.

    Nothing is said where all rewards are equal, or where a part is missing somewhere.
    """
    rewards = [row.reward for row in graded]
    if len(rewards) < 3 or are_alike(rewards):
        return {}
    found = {}
    for name in sub_reward_means(graded):
        values = [row.sub_rewards.get(name) for row in graded]
        if None in values:
            return {}
        found[name] = 0.0 if are_alike(values) else correlation(values, rewards) ** 2
    return found
