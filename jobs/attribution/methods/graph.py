"""Values of the places that siblings passed through, and the credits that follow from them.

A place is named by a key after each step. V(place) is the mean reward of the *other* rollouts that passed it, drawn
toward the place before (PRIOR pretended rollouts), so that one sibling alone does not decide:

    V_0 = b,   V_t = (Σ_{j ≠ i at place t} R_j + PRIOR · V_{t−1}) / (n_t + PRIOR)

and V_t = V_{t−1} while the same siblings stand at both places, for then nothing was learned.

The credit of a step is V_t − V_{t−1}; these differences telescope. What siblings can no longer tell, R − V at the
last shared place, goes to the steps after it, most of it to the step that left the others.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jobs.attribution.methods.base import Z90, Group, closed
from jobs.attribution.types import Credit, CreditStep

#: Pretended rollouts at the value of the place before.
PRIOR = 1.0
#: Pretended siblings that did something else where nobody did, so that agreement is not taken for certainty.
UNSEEN = 0.5
#: Part of the unexplained rest that goes to the step that left the others; the steps after it share what remains.
PARTING_SHARE = 0.5

#: The key of the place before the first step; a method may come back to it.
START = "start"

Places = Callable[[Sequence[CreditStep]], list[str]]


@dataclass
class _Walk:
    """One rollout seen against its siblings."""

    values: list[float] = field(default_factory=list)  # V_1 … V_T, own reward left out
    support: list[int] = field(default_factory=list)  # siblings at the place before the step
    together: list[int] = field(default_factory=list)  # siblings at the place after the step
    variance: list[float] = field(default_factory=list)  # of V_t − V_{t−1}


def group_credits(group: Group, method: str, places: Places) -> list[Credit]:
    """Credits of all rollouts of one group from the values of their places."""
    paths = [places(rollout.steps) for rollout in group.rollouts]
    passed: dict[str, set[int]] = defaultdict(set, {START: set(range(len(paths)))})
    for index, path in enumerate(paths):
        for place in path:
            passed[place].add(index)
    rewards = group.rewards
    return [_credit(group, method, index, _walk(index, paths[index], passed, rewards)) for index in range(len(paths))]


def reward_variance(rewards: Sequence[float]) -> float:
    """Variance of the group's rewards with two pretended rewards at ± a quarter of the range seen."""
    mean = math.fsum(rewards) / len(rewards)
    spread = max(rewards) - min(rewards)
    return (math.fsum((reward - mean) ** 2 for reward in rewards) + spread**2 / 8) / (len(rewards) + 1)


def _walk(index: int, path: list[str], passed: dict[str, set[int]], rewards: list[float]) -> _Walk:
    walk = _Walk()
    here = set(range(len(rewards))) - {index}
    value = math.fsum(rewards[other] for other in sorted(here)) / len(here)
    noise = reward_variance(rewards)
    for place in path:
        there = passed[place] - {index}
        after = value
        if there != here:
            after = (math.fsum(rewards[other] for other in sorted(there)) + PRIOR * value) / (len(there) + PRIOR)
        stayed = len(here & there)
        walk.support.append(len(here))
        walk.together.append(len(there))
        walk.values.append(after)
        walk.variance.append(noise * _difference_variance(len(here), len(there), stayed))
        here, value = there, after
    return walk


def _difference_variance(before: int, after: int, both: int) -> float:
    """Variance of a difference of two means that share `both` rewards, in units of one reward's variance."""
    n, m = before + PRIOR + (UNSEEN if both == before else 0.0), after + PRIOR
    return max(0.0, 1 / n + 1 / m - 2 * (both + PRIOR) / (n * m))


def _credit(group: Group, method: str, index: int, walk: _Walk) -> Credit:
    rollout = group.rollouts[index]
    reward, baseline = float(rollout.reward), group.baseline(index)
    before = [baseline, *walk.values[:-1]]
    steps = [after - start for after, start in zip(walk.values, before, strict=True)]
    rest = reward - walk.values[-1]
    first = _parting(walk.together)
    shares = _rest_shares(len(steps), first)
    credits = [step + rest * share for step, share in zip(steps, shares, strict=True)]
    low: list[float | None] = []
    high: list[float | None] = []
    flat = not group.has_difference
    for place, (plain, credit) in enumerate(zip(steps, credits, strict=True)):
        if flat or walk.support[place] == 0 or place > first:
            low.append(None)
            high.append(None)
            continue
        error = Z90 * math.sqrt(walk.variance[place])
        ends = (plain, plain + rest) if place == first else (plain, credit)
        low.append(min(ends) - error)
        high.append(max(ends) + error)
    support = [count if bound is not None else 0 for count, bound in zip(walk.support, low, strict=True)]
    return Credit(
        rollout=rollout.rollout,
        method=method,
        baseline=baseline,
        credits=closed(credits, reward - baseline),
        low=low,
        high=high,
        support=support,
        detail=[
            {"before": start, "after": after, "siblings_before": here, "siblings_after": there}
            for start, after, here, there in zip(before, walk.values, walk.support, walk.together, strict=True)
        ],
    )


def _parting(together: list[int]) -> int:
    """Index of the step after which no sibling stands where this rollout stands; the last step if none is alone."""
    for place in range(len(together) - 1, -1, -1):
        if together[place]:
            return min(place + 1, len(together) - 1)
    return 0


def _rest_shares(count: int, first: int) -> list[float]:
    """How the rest is shared: the parting step's part, then equal parts for the steps after it."""
    behind = count - first - 1
    if behind == 0:
        return [0.0] * first + [1.0]
    return [0.0] * first + [PARTING_SHARE] + [(1 - PARTING_SHARE) / behind] * behind
