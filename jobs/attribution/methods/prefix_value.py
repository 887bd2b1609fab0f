"""Story so far: a small model guesses the final reward after each step; credit is how far the guess moved.

The return decomposition of RUDDER (Arjona-Medina et al. 2019, arXiv 1806.07857) and of step-progress attribution
(SPA, Wang et al. 2025, arXiv 2505.20732): credit_t = V_t − V_{t−1}, and the last step closes to the reward R.

V is a ridge regression on features of the prefix (`prefix_features`), cross-fitted over groups: the model that
values a rollout was fitted without any rollout of its item. The penalty is chosen by the same cross-fitting. The
distance between V_0 and the leave-one-out mean b is shared over the steps by their uncertainty, so the credits sum
to R − b.

Intervals: bootstrap over blocks of groups, widened by the error that the model has left at the end, spread over the
steps: what it cannot explain there was guessed wrong somewhere on the way. The last step's interval reaches from the
model's own move to the whole rest. When the steps do not help the model to guess better than the item alone, no step
has an interval: nothing is known.
"""

import math
from dataclasses import dataclass

import numpy as np

from jobs.attribution.methods.base import Z90, Group, Method, by_tokens, closed, groups_of, in_order
from jobs.attribution.methods.prefix_features import Rows, feature_rows
from jobs.attribution.types import Credit, CreditRollout

FOLDS = 5
BLOCKS = 40
RESAMPLES = 60
PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
#: Below this the model cannot be fitted: rollouts of other items, and items.
MIN_ROLLOUTS, MIN_GROUPS = 40, 10
#: Part of the error left at the end that a single step's guess may have.
MISFIT = 1.6
SEED = 20261130


@dataclass
class _Fit:
    """The fitted guesses: one row per prefix, and its bootstrap resamples."""

    value: np.ndarray
    resampled: np.ndarray
    skill: float  # share of the squared error before the first step that the steps remove, out of fold
    skill_low: float
    error_step: float  # squared error left at the end of a rollout, per step


def compute(rollouts: list[CreditRollout]) -> list[Credit]:
    groups = groups_of(rollouts)
    if not groups:
        return []
    count = sum(len(group.rollouts) for group in groups)
    if count < MIN_ROLLOUTS or len(groups) < MIN_GROUPS:
        return in_order([credit for group in groups for credit in _unfitted(group)], rollouts)
    rows = feature_rows(groups)
    fit = _fit(rows, len(groups))
    credits = [
        _credit(group, place, rows.starts[number][place], fit, count - len(group.rollouts))
        for number, group in enumerate(groups)
        for place in range(len(group.rollouts))
    ]
    return in_order(credits, rollouts)


def _unfitted(group: Group) -> list[Credit]:
    """Too few rollouts of other items for a model: equal shares, marked as knowing nothing."""
    credits = []
    for place, rollout in enumerate(group.rollouts):
        baseline = group.baseline(place)
        advantage = float(rollout.reward) - baseline
        empty: list[float | None] = [None] * len(rollout.steps)
        credits.append(
            Credit(
                rollout=rollout.rollout,
                method="prefix_value",
                baseline=baseline,
                credits=closed([advantage * share for share in by_tokens(rollout.steps)], advantage),
                low=empty,
                high=list(empty),
                support=[0] * len(rollout.steps),
                detail=[{"note": "too few rollouts of other items"} for _ in rollout.steps],
            )
        )
    return credits


def _standardised(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and deviation 1; constant columns dropped; a fixed order that names cannot change."""
    mean = weight @ x / weight.sum()
    deviation = np.sqrt(weight @ (x - mean) ** 2 / weight.sum())
    kept = deviation > 1e-9
    return (x[:, kept] - mean[kept]) / deviation[kept]


def _fit(rows: Rows, n_groups: int) -> _Fit:
    x = _standardised(rows.x, rows.weight)
    target = rows.reward - rows.baseline
    blocks = min(BLOCKS, n_groups)
    block_of_group = np.arange(n_groups) % blocks
    fold_of_block = np.arange(blocks) % FOLDS
    block = block_of_group[rows.group]
    gram = np.zeros((blocks, x.shape[1], x.shape[1]))
    moment = np.zeros((blocks, x.shape[1]))
    for number in range(blocks):
        part = block == number
        weighted = x[part] * rows.weight[part, None]
        gram[number] = weighted.T @ x[part]
        moment[number] = weighted.T @ target[part]
    fold = fold_of_block[block]
    guesses = {penalty: np.zeros(len(target)) for penalty in PENALTIES}
    for held in range(FOLDS):
        rest, here = fold_of_block != held, fold == held
        values, vectors = np.linalg.eigh(gram[rest].sum(axis=0))
        turned, scores = vectors.T @ moment[rest].sum(axis=0), x[here] @ vectors
        for penalty in PENALTIES:
            guesses[penalty][here] = scores @ (turned / (values + penalty))
    errors = {penalty: rows.weight @ (target - guess) ** 2 for penalty, guess in guesses.items()}
    best = min(PENALTIES, key=lambda penalty: errors[penalty])
    resampled = _resample(x, gram, moment, fold_of_block, fold, best)
    guess = guesses[best]
    starts = np.array([start for places in rows.starts for start in places])
    ends = np.append(starts[1:], len(target)) - 1
    before = (target[starts] - guess[starts]) ** 2
    after = (target[ends] - guess[ends]) ** 2
    skill, skill_low = _skill(before, after, block[starts], blocks)
    left = float(after.sum() / (ends - starts).sum())
    lowest, highest = rows.reward.min(), rows.reward.max()  # no reward was ever seen outside
    value = np.clip(rows.baseline + guess, lowest, highest)
    return _Fit(value, np.clip(rows.baseline[:, None] + resampled, lowest, highest), skill, skill_low, left)


def _skill(before: np.ndarray, after: np.ndarray, block: np.ndarray, blocks: int) -> tuple[float, float]:
    """Share of squared error that the steps remove, and its lower 95 % bound over blocks."""
    gained = np.bincount(block, before - after, blocks)
    whole = max(float(before.sum()), 1e-12)
    error = math.sqrt(blocks * float(np.var(gained, ddof=1))) if blocks > 1 else math.inf
    return float(gained.sum()) / whole, (float(gained.sum()) - Z90 * error) / whole


def _resample(
    x: np.ndarray, gram: np.ndarray, moment: np.ndarray, fold_of_block: np.ndarray, fold: np.ndarray, penalty: float
) -> np.ndarray:
    """Out-of-fold guesses of models fitted to resampled blocks."""
    random = np.random.default_rng(SEED)
    guess = np.zeros((len(x), RESAMPLES))
    ridge = penalty * np.eye(x.shape[1])
    for held in range(FOLDS):
        rest = np.flatnonzero(fold_of_block != held)
        here = fold == held
        drawn = random.multinomial(len(rest), [1 / len(rest)] * len(rest), size=RESAMPLES).astype(float)
        grams = np.tensordot(drawn, gram[rest], axes=1) + ridge
        moments = drawn @ moment[rest]
        weights = np.linalg.solve(grams, moments[:, :, None])[:, :, 0]
        guess[here] = x[here] @ weights.T
    return guess


def _credit(group: Group, place: int, start: int, fit: _Fit, others: int) -> Credit:
    rollout = group.rollouts[place]
    count = len(rollout.steps)
    reward, baseline = float(rollout.reward), group.baseline(place)
    value = fit.value[start : start + count + 1]
    moves = np.diff(value)
    error = np.diff(fit.resampled[start : start + count + 1], axis=0).std(axis=1, ddof=1)
    rest = reward - value[-1]
    offset = value[0] - baseline
    trust = error**2 + 1e-9
    credits = moves + offset * trust / trust.sum()
    credits[-1] += rest
    low: list[float | None] = [None] * count
    high: list[float | None] = [None] * count
    error = np.sqrt(error**2 + MISFIT * fit.error_step)
    if fit.skill_low > 0 and group.has_difference:
        for index in range(count):
            ends = [moves[index], credits[index]]
            low[index] = float(min(ends) - Z90 * error[index])
            high[index] = float(max(ends) + Z90 * error[index])
    return Credit(
        rollout=rollout.rollout,
        method="prefix_value",
        baseline=baseline,
        credits=closed(credits.tolist(), reward - baseline),
        low=low,
        high=high,
        support=[others if bound is not None else 0 for bound in low],
        detail=[
            {"before": float(value[index]), "after": float(value[index + 1]), "skill": round(fit.skill, 4)}
            for index in range(count)
        ],
    )


METHOD = Method(
    key="prefix_value",
    name="Story so far",
    sentence="A small model guesses the reward after each step; credit is how far the guess moved.",
    needs="some hundred rollouts of other items",
    paper="RUDDER, arXiv 1806.07857; SPA, arXiv 2505.20732",
    assumes="some hundred graded rollouts of other items under about the same policy",
    fails="what decides lies in the wording of one answer; the rest then lands on the last step",
    compute=compute,
)
