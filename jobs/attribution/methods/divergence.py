"""Where rollouts part: siblings merged into one graph; shared steps share, credit falls where they part.

After SALT (Li et al. 2025, arXiv 2510.20022): equal steps of siblings become one edge of a graph, so that good and
bad rollouts that walked it together get its mean, and steps that only some took tell them apart. Here a node is the
set of steps taken so far with their results, in any order, and an edge's credit is the difference of its two nodes'
leave-one-out mean rewards. That keeps SALT's graph and adds the law of sums, which SALT's averages do not have.
"""

from collections.abc import Sequence

from jobs.attribution.methods.base import Method, RunningSet, groups_of, in_order, outcome_key
from jobs.attribution.methods.graph import group_credits
from jobs.attribution.types import Credit, CreditRollout, CreditStep


def places(steps: Sequence[CreditStep]) -> list[str]:
    """After each step: the set of steps done so far with their results; order and repeats do not matter."""
    done = RunningSet()
    keys = []
    for step in steps:
        done.add(outcome_key(step))
        keys.append(done.key)
    return keys


def compute(rollouts: list[CreditRollout]) -> list[Credit]:
    credits = [credit for group in groups_of(rollouts) for credit in group_credits(group, "divergence", places)]
    return in_order(credits, rollouts)


METHOD = Method(
    key="divergence",
    name="Where rollouts part",
    sentence="Steps that good and bad rollouts share get the middle; steps only good ones took get more.",
    needs="equal steps in the group",
    paper="SALT, arXiv 2510.20022",
    compute=compute,
)
