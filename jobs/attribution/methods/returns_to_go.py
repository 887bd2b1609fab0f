"""Rewards on the way: a step gets the rewards that came after it, against the group's mean of the same.

G_t = Σ_{k≥t} γ^{k−t} r_k with the graders' step rewards r; what the final reward adds beyond them is paid at the
last step. The baseline is one number: the mean of G over all steps of the *other* rollouts of the group. It is not
taken per step index, because step 3 of one rollout and step 3 of another are not the same situation
(process supervision of GRPO, Shao et al. 2024, arXiv 2402.03300, §4.1.3, with a leave-one-out mean).

Neighbouring returns overlap, so these marks do not sum to the advantage: the method does not claim completeness.
"""

import math

from jobs.attribution.methods.base import Z90, Group, Method, groups_of, in_order
from jobs.attribution.types import Credit, CreditRollout

DISCOUNT = 1.0


def returns(rollout: CreditRollout, discount: float = DISCOUNT) -> list[float]:
    """G_1 … G_T of one rollout. Without discount G_1 is the reward."""
    paid = [step.step_reward or 0.0 for step in rollout.steps]
    paid[-1] += float(rollout.reward or 0.0) - math.fsum(paid)
    to_go: list[float] = []
    ahead = 0.0
    for reward in reversed(paid):
        ahead = reward + discount * ahead
        to_go.append(ahead)
    return to_go[::-1]


def compute(rollouts: list[CreditRollout]) -> list[Credit]:
    credits = []
    for group in groups_of(rollouts):
        if any(step.step_reward is not None for rollout in group.rollouts for step in rollout.steps):
            credits += _group_credits(group)
    return in_order(credits, rollouts)


def _group_credits(group: Group) -> list[Credit]:
    to_go = [returns(rollout) for rollout in group.rollouts]
    credits = []
    for place, rollout in enumerate(group.rollouts):
        means = [math.fsum(values) / len(values) for other, values in enumerate(to_go) if other != place]
        level = math.fsum(means) / len(means)
        spread = math.sqrt(math.fsum((mean - level) ** 2 for mean in means) / max(1, len(means) - 1))
        error = Z90 * spread / math.sqrt(len(means))
        marks = [value - level for value in to_go[place]]
        supported = len(means) >= 2
        credits.append(
            Credit(
                rollout=rollout.rollout,
                method="returns_to_go",
                baseline=group.baseline(place),
                credits=marks,
                low=[mark - error if supported else None for mark in marks],
                high=[mark + error if supported else None for mark in marks],
                support=[len(means) if supported else 0] * len(marks),
                is_complete=False,
                detail=[{"to_go": value, "level": level} for value in to_go[place]],
            )
        )
    return credits


METHOD = Method(
    key="returns_to_go",
    name="Rewards on the way",
    sentence="The grader gave rewards during the rollout; a step gets what came after it.",
    needs="rewards per step",
    paper="GRPO process supervision, arXiv 2402.03300 §4.1.3",
    assumes="the grader’s rewards per step are right and come when they are earned",
    fails="a good step is paid late, and for all that the grader does not see",
    compute=compute,
    is_complete=False,
)
