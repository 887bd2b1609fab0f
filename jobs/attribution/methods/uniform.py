"""Equal share: the group advantage R − b, spread over the steps by the tokens the policy wrote.

This is what group-relative trainers really apply: every token of a rollout carries the same advantage.
b is the leave-one-out mean of RLOO (Ahmadian et al. 2024, arXiv 2402.14740); the group-relative idea is that of
GRPO (Shao et al. 2024, arXiv 2402.03300). It says nothing about single steps, so it gives no interval.
"""

from jobs.attribution.methods.base import Method, by_tokens, closed, groups_of, in_order
from jobs.attribution.types import Credit, CreditRollout


def compute(rollouts: list[CreditRollout]) -> list[Credit]:
    credits = []
    for group in groups_of(rollouts):
        for place, rollout in enumerate(group.rollouts):
            baseline = group.baseline(place)
            advantage = float(rollout.reward) - baseline
            count = len(rollout.steps)
            credits.append(
                Credit(
                    rollout=rollout.rollout,
                    method="uniform",
                    baseline=baseline,
                    credits=closed([advantage * share for share in by_tokens(rollout.steps)], advantage),
                    low=[None] * count,
                    high=[None] * count,
                    support=[0] * count,
                )
            )
    return in_order(credits, rollouts)


METHOD = Method(
    key="uniform",
    name="Equal share",
    sentence="The advantage over the group, the same for every step; it says nothing about single steps.",
    needs="a group of at least two graded rollouts",
    paper="RLOO, arXiv 2402.14740; GRPO, arXiv 2402.03300",
    assumes="nothing",
    fails="always, as an answer to “which step”: it says the same of all",
    compute=compute,
)
