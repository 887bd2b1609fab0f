"""Values of prefixes from the siblings of a group, by effects of steps that they share.

For the first t steps of rollout i let F_t be the keys of those steps (what was done, what it led to). The model

    R_j = μ + Σ_{f ∈ F_t} z_jf β_f + ε_j,   β_f ~ N(0, σ²_kind),   z_jf = 1 when rollout j has f anywhere,

is fitted to all rollouts j of the group by best linear unbiased prediction (Henderson 1975, Biometrics 31:423), and
V_t is its value for rollout i. Only keys of the first t steps are in it, so what a step led to later cannot take the
credit away from it. The credit of step t is V_t − V_{t−1}: steps that good and bad siblings share move little, steps
where they part move much. The gap to R − b, left by noise, is shared over the steps by their uncertainty.

The sizes σ and the noise are chosen by restricted likelihood over all groups given, with a weak prior, so rewards
that have nothing to do with the steps give effects near zero.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jobs.attribution.methods.base import Z90, Group, closed
from jobs.attribution.types import Credit, CreditStep

#: For each step, one key a kind of effect; None where the step adds nothing new.
Keys = Callable[[Sequence[CreditStep]], list[tuple[str | None, ...]]]

#: Standard deviations tried for each kind of effect and for the noise, in units of the rewards' own.
_SIZES = (0.05, 0.2, 0.4, 0.7, 1.1)
_NOISES = (0.1, 0.25, 0.5, 1.0)
#: Rounds of choosing one size after the other.
_SWEEPS = 3
#: Part of the later steps' variance that counts as noise for the value of a prefix.
LOOK_AHEAD = 0.1
#: Factor on the variance of a step's credit: the effects are not really additive.
WIDEN = 2.5
#: The weak prior on sizes and noise: centres and width in log units.
_PRIOR_SIZE, _PRIOR_NOISE, _PRIOR_WIDTH = 0.5, 0.3, 1.0


@dataclass
class Incidence:
    """Who took which steps: for each rollout and step the numbers of its keys, per kind."""

    steps: list[list[tuple[int | None, ...]]]
    counts: list[int]  # different keys per kind
    shared: list[np.ndarray]  # per kind: rollouts × rollouts, keys in common

    @property
    def size(self) -> int:
        return len(self.steps)


def incidence(group: Group, keys: Keys) -> Incidence:
    """Number the keys of one group."""
    named = [keys(rollout.steps) for rollout in group.rollouts]
    kinds = len(named[0][0])
    numbers: list[dict[str, int]] = [{} for _ in range(kinds)]
    steps = [
        [
            tuple(
                None if key is None else numbers[kind].setdefault(key, len(numbers[kind]))
                for kind, key in enumerate(step)
            )
            for step in taken
        ]
        for taken in named
    ]
    shared = []
    for kind in range(kinds):
        table = np.zeros((len(steps), max(1, len(numbers[kind]))))
        for row, taken in enumerate(steps):
            for step in taken:
                if step[kind] is not None:
                    table[row, step[kind]] = 1.0
        shared.append(table @ table.T)
    return Incidence(steps, [len(known) for known in numbers], shared)


@dataclass(frozen=True)
class Sizes:
    """Variances of each kind of effect and of the noise."""

    effects: tuple[float, ...]
    noise: float


def choose_sizes(groups: Sequence[Group], tables: Sequence[Incidence]) -> Sizes:
    """The variances with the highest restricted likelihood over all groups, times the prior."""
    scale = reward_scale(groups)
    kinds = len(tables[0].shared)
    by_size: dict[int, list[int]] = {}
    for index, table in enumerate(tables):
        if groups[index].has_difference:
            by_size.setdefault(table.size, []).append(index)
    stacks = [
        (
            [np.stack([tables[i].shared[kind] for i in indexes]) for kind in range(kinds)],
            np.stack([np.asarray(groups[i].rewards) for i in indexes]),
        )
        for indexes in by_size.values()
    ]
    tried: dict[tuple[float, ...], float] = {}

    def score(point: tuple[float, ...]) -> float:
        if point not in tried:
            sizes = Sizes(tuple(scale * size**2 for size in point[:-1]), scale * point[-1] ** 2)
            fit = sum(_likelihood(shared, rewards, sizes) for shared, rewards in stacks)
            tried[point] = fit - sum(_far(size, _PRIOR_SIZE) for size in point[:-1]) - _far(point[-1], _PRIOR_NOISE)
        return tried[point]

    point: tuple[float, ...] = (*([_SIZES[2]] * kinds), _NOISES[1])
    for _ in range(_SWEEPS):  # one coordinate at a time
        for place in range(kinds + 1):
            choices = _NOISES if place == kinds else _SIZES
            point = max(
                ((*point[:place], choice, *point[place + 1 :]) for choice in choices),
                key=lambda candidate: round(score(candidate), 6),
            )
    return Sizes(tuple(scale * size**2 for size in point[:-1]), scale * point[-1] ** 2)


def _far(value: float, centre: float) -> float:
    """Minus the log of the weak prior."""
    return (math.log(value / centre) / _PRIOR_WIDTH) ** 2 / 2


def reward_scale(groups: Sequence[Group]) -> float:
    """Mean variance of rewards within groups that have any."""
    parts = [np.var(group.rewards, ddof=1) for group in groups if group.has_difference]
    return float(np.mean(parts)) if parts else 1.0


def _likelihood(shared: list[np.ndarray], rewards: np.ndarray, sizes: Sizes) -> float:
    """Restricted log likelihood of a stack of groups of one size."""
    count = rewards.shape[1]
    cover = sum(size * table for size, table in zip(sizes.effects, shared, strict=True))
    cover = cover + sizes.noise * np.eye(count)
    inverse = np.linalg.inv(cover)
    sums = inverse.sum(axis=2)
    weight = sums.sum(axis=1)
    mean = (sums * rewards).sum(axis=1) / weight
    left = rewards - mean[:, None]
    fit = np.einsum("gi,gij,gj->g", left, inverse, left)
    determinant = np.linalg.slogdet(cover)[1]
    return float(-0.5 * (fit + determinant + np.log(weight)).sum())


@dataclass
class Walk:
    """What a group says about one rollout: values after each step, with and without its own reward."""

    start: float  # value before the first step
    value: np.ndarray
    value_without: np.ndarray  # own reward left out
    spread_without: np.ndarray  # standard deviation of that value
    variance: np.ndarray  # of V_t − V_{t−1}
    company: list[int]  # siblings that share a key of the step


def walks(group: Group, table: Incidence, sizes: Sizes) -> list[Walk]:
    """The sequence of models for every rollout of a group."""
    rewards = np.asarray(group.rewards)
    holders = _holders(table)
    # What all rollouts did cannot tell them apart: it is part of the mean.
    telling = [held * (held.sum(axis=1, keepdims=True) < table.size) for held in holders]
    own = sum(size * held.sum(axis=0) for size, held in zip(sizes.effects, telling, strict=True))
    fresh = [_fresh(taken, holders) for taken in table.steps]
    covers = np.concatenate([_covers(_fresh(taken, telling), sizes) for taken in table.steps])
    ahead = np.maximum(own[None, :] - np.einsum("tii->ti", covers), 0.0)  # what later steps may still do
    noise, project = _project(covers, sizes.noise + LOOK_AHEAD * ahead)
    residual = project @ rewards
    weight = 1 / (sizes.noise + LOOK_AHEAD * own)  # the model without any step, under the same noise
    level = float(weight @ rewards / weight.sum())
    _, wide = _project(covers, sizes.noise + ahead)
    found, start = [], 0
    for index, rows in enumerate(fresh):
        part = slice(start, start + len(table.steps[index]))
        start = part.stop
        alone = np.maximum(project[part, index, index], 1e-12 / max(sizes.noise, 1e-12))
        found.append(
            Walk(
                start=level,
                value=rewards[index] - noise[part, index] * residual[part, index],
                value_without=rewards[index] - residual[part, index] / alone,
                spread_without=np.sqrt(np.maximum(1 / alone - noise[part, index], 0.0)),
                variance=WIDEN * _variance(rows, wide[part], sizes),
                company=np.maximum(np.max([row.sum(axis=1) for row in rows], axis=0) - 1, 0).astype(int).tolist(),
            )
        )
    return found


def _fresh(taken: list[tuple[int | None, ...]], holders: list[np.ndarray]) -> list[np.ndarray]:
    """Per kind: for each step who has its key, if the key is met for the first time; zeros otherwise."""
    made = [np.zeros((len(taken), held.shape[1])) for held in holders]
    seen: set[tuple[int, int]] = set()
    for place, step in enumerate(taken):
        for kind, key in enumerate(step):
            if key is not None and (kind, key) not in seen:
                seen.add((kind, key))
                made[kind][place] = holders[kind][key]
    return made


def _covers(fresh: list[np.ndarray], sizes: Sizes) -> np.ndarray:
    """Covariance of the rewards by the keys of the first t steps, for every t."""
    added = sum(size * rows[:, :, None] * rows[:, None, :] for size, rows in zip(sizes.effects, fresh, strict=True))
    return np.cumsum(added, axis=0)


def _variance(fresh: list[np.ndarray], wide: np.ndarray, sizes: Sizes) -> np.ndarray:
    """Variance left in each step's own effects. What nearly all siblings did can hardly stand out."""
    total = np.zeros(len(wide))
    for size, rows in zip(sizes.effects, fresh, strict=True):
        known = np.einsum("ti,tij,tj->t", rows, wide, rows)
        left = np.maximum(0.0, size - size**2 * known) * rows.any(axis=1)
        total += left * (1 - rows.sum(axis=1) / (rows.shape[1] + 1)) ** 2
    return total


def _project(covers: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Noise, and inverse covariance with the mean taken out, of a stack of models."""
    inverse = np.linalg.inv(covers + noise[:, :, None] * np.eye(covers.shape[1]))
    sums = inverse.sum(axis=2)
    return noise, inverse - sums[:, :, None] * sums[:, None, :] / sums.sum(axis=1)[:, None, None]


def _holders(table: Incidence) -> list[np.ndarray]:
    """Per kind: keys × rollouts, 1 where the rollout has the key."""
    made = [np.zeros((max(1, count), table.size)) for count in table.counts]
    for index, taken in enumerate(table.steps):
        for step in taken:
            for kind, key in enumerate(step):
                if key is not None:
                    made[kind][key, index] = 1.0
    return made


def effect_credits(groups: list[Group], method: str, keys: Keys) -> list[Credit]:
    """Credits of all groups by one set of keys."""
    if not groups:
        return []
    tables = [incidence(group, keys) for group in groups]
    sizes = choose_sizes(groups, tables)
    return [
        _credit(group, index, method, walk, sizes)
        for group, table in zip(groups, tables, strict=True)
        for index, walk in enumerate(walks(group, table, sizes))
    ]


def _credit(group: Group, index: int, method: str, walk: Walk, sizes: Sizes) -> Credit:
    rollout = group.rollouts[index]
    reward, baseline = float(rollout.reward), group.baseline(index)
    before = np.concatenate([[walk.start], walk.value[:-1]])
    moves = walk.value - before
    trust = walk.variance + 1e-9 * sum(sizes.effects)
    credits = moves + (reward - baseline - moves.sum()) * trust / trust.sum()
    error = Z90 * np.sqrt(walk.variance)
    low: list[float | None] = [None] * len(moves)
    high: list[float | None] = [None] * len(moves)
    support = [0] * len(moves)
    if group.has_difference:
        # A step that no sibling took can still be compared while a sibling stood at the place before it.
        near = [len(group.rollouts) - 1, *walk.company[:-1]]
        for place, (here, after) in enumerate(zip(near, walk.company, strict=True)):
            support[place] = max(here, after)
            if support[place]:
                low[place] = float(min(moves[place], credits[place]) - error[place])
                high[place] = float(max(moves[place], credits[place]) + error[place])
    return Credit(
        rollout=rollout.rollout,
        method=method,
        baseline=baseline,
        credits=closed(credits.tolist(), reward - baseline),
        low=low,
        high=high,
        support=support,
        detail=[
            {"before": float(start), "after": float(end), "company": others}
            for start, end, others in zip(before, walk.value, walk.company, strict=True)
        ],
    )
