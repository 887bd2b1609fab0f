"""Same situation: compared with siblings that stood at the same point and did something else.

After GiGPO (Feng et al. 2025, arXiv 2505.10978): steps of different rollouts taken in the same environment state form
a subgroup, and a step is judged against its subgroup. A tool-using agent's state is what it has been told, so the
anchor is the set of distinct results received so far: failed calls, repeats, the order of look-ups and the wording of
queries do not change it. GiGPO adds the subgroup's advantage to the group's, which does not sum to the reward; here
the effect of each new result and of each anchor is estimated with shrinkage (`effects`), and the law of sums holds.
"""

from collections.abc import Sequence

from jobs.attribution.methods.base import Method, RunningSet, groups_of, in_order, result_key
from jobs.attribution.methods.effects import effect_credits
from jobs.attribution.types import Credit, CreditRollout, CreditStep


def keys(steps: Sequence[CreditStep]) -> list[tuple[str | None, ...]]:
    """For each step: the new result, and the anchor it leads to. What adds nothing to what is known has no key."""
    known = RunningSet()
    found: list[tuple[str | None, ...]] = []
    for step in steps:
        before, result = known.key, result_key(step)
        if not step.is_error:
            known.add(result)
        found.append((None, None) if known.key == before else (result, known.key))
    return found


def compute(rollouts: list[CreditRollout]) -> list[Credit]:
    return in_order(effect_credits(groups_of(rollouts), "anchor_state", keys), rollouts)


METHOD = Method(
    key="anchor_state",
    name="Same situation",
    sentence="Compared with siblings that stood at the same point and did something else.",
    needs="repeated states in the group",
    paper="GiGPO, arXiv 2505.10978",
    assumes="a situation is what is known: the set of results so far",
    fails="results look alike but mean different things, and when a miss is a loss in itself",
    compute=compute,
)
