"""Same situation: compared with siblings that stood at the same point and did something else.

After GiGPO (Feng et al. 2025, arXiv 2505.10978): steps of different rollouts taken in the same environment state form
a subgroup, and a step is judged against its subgroup. A tool-using agent's state is what it has been told, so the
anchor is the set of distinct results received so far: failed calls, repeats and the order of look-ups do not change
it. Credit is the difference between the leave-one-out means of neighbouring anchors, which sums as the law asks;
GiGPO adds its two advantages instead, which does not.
"""

from collections.abc import Sequence

from jobs.attribution.methods.base import Method, RunningSet, groups_of, in_order, result_key
from jobs.attribution.methods.graph import group_credits
from jobs.attribution.types import Credit, CreditRollout, CreditStep


def places(steps: Sequence[CreditStep]) -> list[str]:
    """After each step: the set of what is known. A failed call adds nothing."""
    known = RunningSet()
    keys = []
    for step in steps:
        if not step.is_error:
            known.add(result_key(step))
        keys.append(known.key)
    return keys


def compute(rollouts: list[CreditRollout]) -> list[Credit]:
    credits = [credit for group in groups_of(rollouts) for credit in group_credits(group, "anchor_state", places)]
    return in_order(credits, rollouts)


METHOD = Method(
    key="anchor_state",
    name="Same situation",
    sentence="Compared with siblings that stood at the same point and did something else.",
    needs="repeated states in the group",
    paper="GiGPO, arXiv 2505.10978",
    compute=compute,
)
