"""What the bench measures: how well scores find the decisive step, rank with the truth, and keep their promises."""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from jobs.attribution.bench.rivals import RIVALS
from jobs.attribution.bench.worlds import Truth
from jobs.attribution.methods.registry import compute_each
from jobs.attribution.types import Credit, CreditRollout, CreditStep


@dataclass
class Quality:
    """How one scoring did on one family at one group size."""

    top1: float
    spearman: float
    within: float
    coverage: float | None = None
    supported: float | None = None
    width: float | None = None
    seconds: float = 0.0


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks with ties at their mean."""
    array = np.asarray(values, dtype=float)
    order = array.argsort(kind="stable")
    result = np.empty(len(array))
    result[order] = np.arange(len(array))
    for value in np.unique(array):
        same = array == value
        if same.sum() > 1:
            result[same] = result[same].mean()
    return result


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Rank correlation; 0 when one side does not vary."""
    a, b = ranks(np.round(one, 9)), ranks(np.round(other, 9))
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def judge(truths: Sequence[Truth], scores: Sequence[Sequence[float] | None]) -> Quality:
    """Scores against the truth. A tie for the largest score counts as the share of a lucky draw."""
    hits, within, mine, true = [], [], [], []
    for truth, score in zip(truths, scores, strict=True):
        if score is None:
            continue
        mine += list(score)
        true += truth.advantage
        if np.ptp(truth.advantage) > 1e-9 and len(score) > 2:
            within.append(spearman(score, truth.advantage))
        if truth.decisive is not None and len(score) > 1:
            sizes = np.round(np.abs(score), 9)
            best = np.flatnonzero(sizes == sizes.max())
            hits.append((truth.decisive in best) / len(best))
    return Quality(fmean(hits or [0.0]), spearman(mine, true), fmean(within or [0.0]))


def judge_method(method: str, truths: Sequence[Truth]) -> tuple[Quality, list[Credit | None]]:
    """A method's credits against the truth, with the coverage of its intervals."""
    start = time.process_time()
    credits = compute_each(method, [truth.rollout for truth in truths])
    seconds = time.process_time() - start
    quality = judge(truths, [credit.credits if credit else None for credit in credits])
    quality.seconds = seconds
    inside, widths, steps = [], [], 0
    for truth, credit in zip(truths, credits, strict=True):
        if credit is None:
            continue
        steps += len(credit.credits)
        for low, high, value in zip(credit.low, credit.high, truth.advantage, strict=True):
            if low is not None and high is not None:
                inside.append(low - 1e-9 <= value <= high + 1e-9)
                widths.append(high - low)
    if inside:
        quality.coverage, quality.width = fmean(inside), fmean(widths)
    quality.supported = len(inside) / steps if steps else 0.0
    return quality, credits


def judge_rivals(truths: Sequence[Truth]) -> dict[str, Quality]:
    """Each cheap rival against the truth, given the group's advantage for free."""
    by_group: dict[str, list[float]] = {}
    for truth in truths:
        by_group.setdefault(truth.rollout.group, []).append(float(truth.rollout.reward or 0.0))
    advantages = []
    for truth in truths:
        rewards = by_group[truth.rollout.group]
        own = float(truth.rollout.reward or 0.0)
        advantages.append(own - (math.fsum(rewards) - own) / (len(rewards) - 1))
    return {
        name: judge(truths, [score(t.rollout, a) for t, a in zip(truths, advantages, strict=True)])
        for name, score in RIVALS.items()
    }


def confident_share(credits: Sequence[Credit | None]) -> float:
    """Share of rollouts with a step whose interval excludes zero."""
    found = [credit for credit in credits if credit is not None]
    sure = [
        any(
            low is not None and high is not None and (low > 0 or high < 0)
            for low, high in zip(c.low, c.high, strict=True)
        )
        for c in found
    ]
    return fmean(sure) if sure else 0.0


def shuffled(truths: Sequence[Truth], seed: int) -> list[CreditRollout]:
    """The same rollouts, the rewards dealt out anew over all of them: nothing is left to find."""
    rewards = [truth.rollout.reward for truth in truths]
    random.Random(seed).shuffle(rewards)  # noqa: S311 a bench
    return [replace(t.rollout, reward=reward) for t, reward in zip(truths, rewards, strict=True)]


def shuffled_in_groups(truths: Sequence[Truth], seed: int) -> list[CreditRollout]:
    """Rewards dealt out anew inside each group, so that items stay easy or hard."""
    draw = random.Random(seed)  # noqa: S311 a bench
    places: dict[str, list[int]] = {}
    for index, truth in enumerate(truths):
        places.setdefault(truth.rollout.group, []).append(index)
    rewards = [truth.rollout.reward for truth in truths]
    for indexes in places.values():
        dealt = [rewards[index] for index in indexes]
        draw.shuffle(dealt)
        for index, reward in zip(indexes, dealt, strict=True):
            rewards[index] = reward
    return [replace(t.rollout, reward=reward) for t, reward in zip(truths, rewards, strict=True)]


def with_no_op(truths: Sequence[Truth], seed: int) -> tuple[list[CreditRollout], list[int | None]]:
    """A call that does nothing put into half of the rollouts, and where."""
    draw = random.Random(seed)  # noqa: S311 a bench
    rollouts, places = [], []
    for truth in truths:
        place = draw.randrange(len(truth.rollout.steps)) if draw.random() < 0.5 else None
        steps = list(truth.rollout.steps)
        if place is not None:
            steps.insert(place, CreditStep(kind="tool", name="ping", arguments="{}", result="pong", tokens=8))
        rollouts.append(replace(truth.rollout, steps=steps))
        places.append(place)
    return rollouts, places


def no_op_share(method: str, truths: Sequence[Truth], seed: int = 1) -> float:
    """Mean size of a no-op's credit over the mean size of a step's: 0 is right, 1 is no better than any step."""
    rollouts, places = with_no_op(truths, seed)
    nothing, anything = [], []
    for credit, place in zip(compute_each(method, rollouts), places, strict=True):
        if credit is None:
            continue
        anything += [abs(value) for value in credit.credits]
        if place is not None:
            nothing.append(abs(credit.credits[place]))
    return fmean(nothing) / max(1e-12, fmean(anything)) if nothing and anything else 0.0


def rename_change(method: str, truths: Sequence[Truth]) -> float:
    """Largest change of a credit when every tool gets another name."""
    names = sorted({step.name for truth in truths for step in truth.rollout.steps if step.name})
    other = {name: f"tool_{len(names) - index:02d}" for index, name in enumerate(names)}
    renamed = [
        replace(t.rollout, steps=[replace(step, name=other.get(step.name, "")) for step in t.rollout.steps])
        for t in truths
    ]
    plain = compute_each(method, [truth.rollout for truth in truths])
    most = 0.0
    for before, after in zip(plain, compute_each(method, renamed), strict=True):
        if before is not None and after is not None:
            most = max(most, *(abs(a - b) for a, b in zip(before.credits, after.credits, strict=True)))
    return most
