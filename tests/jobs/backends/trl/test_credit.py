"""Credit in training: what step advantages add up to."""

import pytest

from jobs.attribution.types import Credit
from jobs.backends.trl.credit import credit_rollout, step_advantages
from tests.jobs.backends.trl.scored import scored


def group():
    """Rewards 1, 0, 0.5 with advantages as GRPO computes them, and leave-one-out baselines."""
    tries = [scored(reward=reward, sizes=(6, 2)) for reward in (1.0, 0.0, 0.5)]
    for one in tries:
        one.advantage = (one.reward - 0.5) / (0.5 + 1e-4)
    return tries, [0.25, 0.75, 0.5]


def credit(place, baseline, shares):
    return Credit(str(place), "x", baseline, shares, [None] * len(shares), [None] * len(shares), [1] * len(shares))


def test_uniform_credit_gives_back_the_plain_advantages():
    tries, baselines = group()
    credits = []
    for place, (one, baseline) in enumerate(zip(tries, baselines, strict=True)):
        above = one.reward - baseline
        credits.append(credit(place, baseline, [above * 6 / 8, above * 2 / 8]))
    for one, values in zip(tries, step_advantages(tries, credits), strict=True):
        assert values == pytest.approx([one.advantage] * 2)


def test_shares_move_between_steps_and_their_weighted_mean_stays():
    tries, baselines = group()
    credits = [
        credit(n, base, [0.0, one.reward - base]) for n, (one, base) in enumerate(zip(tries, baselines, strict=True))
    ]
    values = step_advantages(tries, credits, clip=100)
    assert values[0][0] == 0
    assert (6 * values[0][0] + 2 * values[0][1]) / 8 == pytest.approx(tries[0].advantage)


def test_short_steps_are_clipped():
    tries, baselines = group()
    credits = [
        credit(n, base, [0.0, one.reward - base]) for n, (one, base) in enumerate(zip(tries, baselines, strict=True))
    ]
    assert step_advantages(tries, credits, clip=1.0)[0][1] == 1.0


def test_ungraded_try_keeps_no_advantage():
    tries, _ = group()
    tries[0].grade.reward = tries[0].advantage = None
    assert step_advantages(tries, [])[0] == [0.0, 0.0]


def test_group_without_signal_stays_without():
    tries = [scored(reward=1.0), scored(reward=1.0)]
    for one in tries:
        one.advantage = 0.0
    credits = [credit(n, 1.0, [0.3, -0.3]) for n in range(2)]
    assert step_advantages(tries, credits) == [[0.0, 0.0], [0.0, 0.0]]


def test_credit_rollout_shows_steps_as_methods_see_them():
    made = credit_rollout(3, scored(calls=("lookup",), sizes=(5, 2)))
    assert [(step.kind, step.name, step.tokens) for step in made.steps] == [("tool", "lookup", 5), ("answer", "", 2)]
    assert (made.rollout, made.group, made.reward) == ("3", "a", 1.0)
