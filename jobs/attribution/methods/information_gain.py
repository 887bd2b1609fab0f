"""Gain in knowledge: how much likelier the reference answer became with each step.

IGPO (Wang et al. 2025, arXiv 2510.14967): with π the policy and a the reference of L tokens, the information gain of turn t
is π(a | prefix_t) − π(a | prefix_{t−1}), π(a | p) = exp(1/L Σ_j log π(a_j | p, a_<j)). The last turn, the answer itself, has
no turn after it and gains nothing by this measure. Gains are in units of probability, so they do not add up to the reward
and are read one by one. They are read off the model and not estimated from siblings, so they have no interval: whether a
better informed policy earns more is another question.
"""

import math

from jobs.attribution.methods.base import Method, groups_of, in_order
from jobs.attribution.types import Credit, CreditRollout

KEY = "information_gain"


def compute(rollouts: list[CreditRollout]) -> list[Credit]:
    """Only rollouts with stored log-probabilities, of groups with a baseline."""
    found = []
    for group in groups_of(rollouts):
        for place, rollout in enumerate(group.rollouts):
            if any(step.reference_logprob is not None for step in rollout.steps):
                found.append(_credit(rollout, group.baseline(place)))
    return in_order(found, rollouts)


def _credit(rollout: CreditRollout, baseline: float) -> Credit:
    known = rollout.reference_logprob
    gains, detail = [], []
    for step in rollout.steps:
        after = step.reference_logprob
        gain = 0.0 if known is None or after is None else math.exp(after) - math.exp(known)
        gains.append(gain)
        detail.append({} if known is None or after is None else {"before": math.exp(known), "after": math.exp(after)})
        known = after if after is not None else known
    count = len(gains)
    return Credit(
        rollout=rollout.rollout, method=KEY, baseline=baseline, credits=gains, low=[None] * count, high=[None] * count,
        support=[0] * count, is_complete=False, detail=detail,
    )  # fmt: skip


METHOD = Method(
    key=KEY,
    name="Gain in knowledge",
    sentence="Credit is how much likelier the reference answer became with each step, as the policy itself sees it.",
    needs="log-probabilities of the reference answer after each step",
    paper="IGPO, arXiv 2510.14967",
    assumes="knowing the reference answer is what earns the reward",
    fails="several answers are right, or the policy would word the reference differently",
    compute=compute,
    is_complete=False,
)
