"""What every method owes, on random groups."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.attribution.methods.registry import METHODS, compute
from jobs.attribution.types import CreditRollout, CreditStep
from tests.jobs.attribution.worlds import answer, chain_world, tool

COMPLETE = [key for key, method in METHODS.items() if method.is_complete]
EVERY = list(METHODS)

steps = st.lists(
    st.builds(
        CreditStep,
        kind=st.sampled_from(["tool", "tool", "answer"]),
        name=st.sampled_from(["a", "b"]),
        arguments=st.sampled_from(["", "{}", '{"x": 1}', "broken {"]),
        result=st.sampled_from(["", "one", "two", "\ud800 \x00"]),
        tokens=st.integers(1, 900),
        is_error=st.booleans(),
        step_reward=st.none() | st.floats(-1, 1),
    ),
    max_size=5,
)
rollouts = st.lists(
    st.builds(
        CreditRollout,
        rollout=st.sampled_from("rstuvw"),
        group=st.sampled_from(["g", "h"]),
        reward=st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0]),
        steps=steps,
    ),
    max_size=8,
)


def shares(method, rollouts):
    return {(index, c.rollout): c.credits for index, c in enumerate(compute(method, rollouts))}


@pytest.mark.parametrize("method", COMPLETE)
@given(group=rollouts)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_credits_sum_to_the_reward_less_the_mean_of_the_others(method, group):
    graded = [r for r in group if r.reward is not None and r.steps]
    for credit in compute(method, group):
        mine = [r for r in graded if r.rollout == credit.rollout]
        sums = {math.fsum(credit.credits) + credit.baseline}
        assert any(abs(total - r.reward) <= 1e-9 * max(1, abs(r.reward)) for total in sums for r in mine)
        assert len(credit.credits) == len(credit.low) == len(credit.high) == len(credit.support)


@pytest.mark.parametrize("method", COMPLETE)
def test_sum_holds_within_1e_9_on_many_groups(method):
    world = chain_world(24)
    rewards = {(r.group, r.rollout): r.reward for r in world}
    for rollout, credit in zip(world, compute(method, world), strict=True):
        assert abs(math.fsum(credit.credits) - (rewards[rollout.group, rollout.rollout] - credit.baseline)) <= 1e-9
        for low, value, high in zip(credit.low, credit.credits, credit.high, strict=True):
            assert (low is None) == (high is None)
            assert low is None or low - 1e-12 <= value <= high + 1e-12


@pytest.mark.parametrize("method", EVERY)
def test_order_of_rollouts_does_not_matter(method):
    world = chain_world(14, size=6)
    mixed = world[:]
    random.Random(3).shuffle(mixed)
    first = dict(zip([(r.group, r.rollout) for r in world], compute(method, world), strict=False))
    second = dict(zip([(r.group, r.rollout) for r in mixed], compute(method, mixed), strict=False))
    assert first.keys() == second.keys()
    for key, credit in first.items():
        assert credit.credits == pytest.approx(second[key].credits, abs=1e-9)
        assert credit.support == second[key].support


@pytest.mark.parametrize("method", EVERY)
def test_renaming_every_tool_changes_nothing(method):
    world = chain_world(14, size=6)
    names = {"search": "z9", "read": "aardvark", "add": "m"}
    renamed = [replace(r, steps=[replace(s, name=names.get(s.name, "")) for s in r.steps]) for r in world]
    for before, after in zip(compute(method, world), compute(method, renamed), strict=True):
        assert after.credits == pytest.approx(before.credits, abs=1e-9)


@pytest.mark.parametrize("method", ["uniform", "divergence", "anchor_state"])
def test_equal_rollouts_get_equal_credit(method):
    path = [tool("a", "{}", "x"), tool("b", "{}", "y"), answer("z")]
    other = [tool("a", "{}", "x"), answer("q")]
    group = [CreditRollout(name, "g", 1.0, path) for name in "rs"] + [CreditRollout("t", "g", 0.0, other)]
    first, second, _ = compute(method, group)
    assert first.credits == pytest.approx(second.credits, abs=1e-12)


@pytest.mark.parametrize("method", ["divergence", "anchor_state"])
def test_a_repeated_call_that_teaches_nothing_gets_nothing(method):
    shared, again = tool("a", "{}", "x"), tool("a", "{}", "x")
    group = [
        CreditRollout("r", "g", 1.0, [shared, again, tool("b", "{}", "y"), answer("z")]),
        CreditRollout("s", "g", 1.0, [shared, tool("b", "{}", "y"), answer("z")]),
        CreditRollout("t", "g", 0.0, [shared, tool("c", "{}", "w"), answer("v")]),
    ]
    assert compute(method, group)[0].credits[1] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("method", ["divergence", "anchor_state"])
def test_a_step_that_all_took_gets_next_to_nothing_however_long_the_rest_is(method):
    shared = tool("a", "{}", "x")
    long = [tool("b", f"{n}", f"y{n}") for n in range(6)]
    group = [CreditRollout(f"r{n}", "g", 1.0, [shared, *long, answer("z")]) for n in range(3)]
    group += [CreditRollout(f"s{n}", "g", 0.0, [shared, answer("q")]) for n in range(4)]
    for credit in compute(method, group):
        assert abs(credit.credits[0]) < 0.1 * max(abs(share) for share in credit.credits)


@pytest.mark.parametrize("method", EVERY)
def test_groups_below_two_graded_rollouts_get_no_credit(method):
    lone = [CreditRollout("r", "g", 1.0, [answer("x")]), CreditRollout("s", "g", None, [answer("y")])]
    assert compute(method, lone) == []


@pytest.mark.parametrize("method", ["divergence", "anchor_state", "prefix_value"])
def test_equal_rewards_leave_nothing_to_share_and_nothing_certain(method):
    world = [replace(r, reward=0.5) for r in chain_world(14, size=4)]
    for credit in compute(method, world):
        assert credit.credits == pytest.approx([0.0] * len(credit.credits), abs=1e-9)
        assert set(credit.low) == {None}


@pytest.mark.parametrize("method", ["divergence", "anchor_state", "prefix_value"])
def test_shuffled_rewards_leave_few_rollouts_with_a_confident_step(method):
    world = chain_world(40, seed=5)
    rewards = [r.reward for r in world]
    random.Random(7).shuffle(rewards)
    credits = compute(method, [replace(r, reward=reward) for r, reward in zip(world, rewards, strict=True)])
    confident = sum(
        any(low is not None and (low > 0 or high < 0) for low, high in zip(c.low, c.high, strict=True)) for c in credits
    )
    assert confident <= 0.1 * len(credits)


def test_prefix_value_moves_at_the_step_that_went_wrong():
    world = chain_world(40, seed=2, fault=0.06)
    hits = cases = 0
    for rollout, credit in zip(world, compute("prefix_value", world), strict=True):
        wrong = [i for i, s in enumerate(rollout.steps) if s.result == "nothing found"]
        if len(wrong) == 1 and rollout.reward == 0:
            cases += 1
            hits += min(range(len(credit.credits)), key=credit.credits.__getitem__) == wrong[0]
    assert cases > 20
    assert hits / cases > 0.8
