"""Where rollouts part: siblings merged into one graph; shared steps share, credit falls where they part.

After SALT (Li et al. 2025, arXiv 2510.20022): equal steps of siblings become one edge of a graph, so that good and
bad rollouts that walked it together get its average, and steps that only some took tell them apart. SALT's plain
averages do not sum to the advantage and take one sibling's luck at its word; here each edge's effect is estimated
with shrinkage (`effects`), which adds the law of sums, intervals, and calm when the rewards are noise.
"""

from collections.abc import Sequence

from jobs.attribution.methods import anchor_state
from jobs.attribution.methods.base import Method, RunningSet, action_key, groups_of, in_order, outcome_key
from jobs.attribution.methods.effects import effect_credits
from jobs.attribution.types import Credit, CreditRollout, CreditStep


def keys(steps: Sequence[CreditStep]) -> list[tuple[str | None, ...]]:
    """For each step: the action, the action with its result, the node it leads to; then the result and the anchor.

    A node is the set of steps done so far with their results, in any order; a repeat leads nowhere and has no key.
    Result and anchor are those of `anchor_state`: they join siblings that learned the same by other words.
    """
    done = RunningSet()
    found: list[tuple[str | None, ...]] = []
    for step, told in zip(steps, anchor_state.keys(steps), strict=True):
        before, outcome = done.key, outcome_key(step)
        done.add(outcome)
        moves = (None, None, None) if done.key == before else (action_key(step), outcome, done.key)
        found.append((*moves, *told))
    return found


def compute(rollouts: list[CreditRollout]) -> list[Credit]:
    return in_order(effect_credits(groups_of(rollouts), "divergence", keys), rollouts)


METHOD = Method(
    key="divergence",
    name="Where rollouts part",
    sentence="Steps that good and bad rollouts share get the middle; steps only good ones took get more.",
    needs="equal steps in the group",
    paper="SALT, arXiv 2510.20022",
    assumes="a step’s effect is much the same wherever it is taken, and equal steps occur in the group",
    fails="every rollout does something else, or the same action is good in one place and bad in another",
    compute=compute,
)
