"""Credits worked out by hand, one small group per method."""

import pytest

from jobs.attribution.methods import effects
from jobs.attribution.methods.base import action_key, groups_of
from jobs.attribution.methods.effects import Sizes, incidence, walks
from jobs.attribution.methods.registry import compute
from jobs.attribution.types import CreditRollout
from tests.jobs.attribution.worlds import answer, fork, tool


def by_id(method, rollouts):
    return {credit.rollout: credit for credit in compute(method, rollouts)}


def test_uniform_spreads_the_advantage_by_tokens():
    steps = [tool("a", tokens=1), tool("b", tokens=3), answer("x", tokens=4)]
    group = [CreditRollout("r", "g", 1.0, steps), CreditRollout("s", "g", 0.2, [answer("y")])]
    credit = by_id("uniform", group)["r"]
    assert credit.baseline == pytest.approx(0.2)
    assert credit.credits == pytest.approx([0.1, 0.3, 0.4])
    assert credit.low == [None] * 3
    assert by_id("uniform", group)["s"].credits == pytest.approx([-0.8])


def test_returns_to_go_pays_what_came_after_against_the_others():
    rewards = [0.1, 0.2, 0.0, 0.5]
    steps = [tool("a", step_reward=reward) for reward in rewards]
    other = CreditRollout("s", "g", 0.4, [tool("a", step_reward=0.1), tool("a", step_reward=0.3)])
    credit = by_id("returns_to_go", [CreditRollout("r", "g", 0.8, steps), other])["r"]
    # to go: 0.8, 0.7, 0.5, 0.5; the other rollout's mean of 0.4 and 0.3 is 0.35
    assert credit.credits == pytest.approx([0.45, 0.35, 0.15, 0.15])
    assert not credit.is_complete


def test_returns_to_go_without_step_rewards_has_no_credit():
    assert compute("returns_to_go", fork()) == []


def test_returns_to_go_pays_the_rest_of_the_reward_at_the_end():
    group = [
        CreditRollout("r", "g", 1.0, [tool("a", step_reward=0.25), answer("x")]),
        CreditRollout("s", "g", 0.0, [tool("a", step_reward=0.0)]),
    ]
    assert [d["to_go"] for d in by_id("returns_to_go", group)["r"].detail] == pytest.approx([1.0, 0.75])


ONE_KIND = Sizes(effects=(1.0,), noise=1.0)


def values(group, keys, sizes=ONE_KIND):
    (whole,) = groups_of(group)
    return [walk.value.tolist() for walk in walks(whole, incidence(whole, keys), sizes)]


def by_action(steps):
    return [(action_key(step),) for step in steps]


@pytest.fixture
def plain_noise(monkeypatch):
    """Later steps' variance left out, so that the numbers stay small."""
    monkeypatch.setattr(effects, "LOOK_AHEAD", 0.0)


@pytest.mark.usefixtures("plain_noise")
def test_effects_of_an_own_step_move_part_of_the_way_to_the_reward():
    # a's model knows only x: covariance diag(2, 1), mean (0.5 · 1 + 1 · 0) / 1.5 = 1/3,
    # effect of x = 1/2 · (1 − 1/3) = 1/3, so V = 2/3; b's is the mirror image.
    group = [CreditRollout("a", "g", 1.0, [tool("x")]), CreditRollout("b", "g", 0.0, [tool("y")])]
    assert values(group, by_action) == [pytest.approx([2 / 3]), pytest.approx([1 / 3])]


@pytest.mark.usefixtures("plain_noise")
def test_effects_of_a_step_that_all_share_move_nothing():
    group = [CreditRollout(name, "g", reward, [tool("x")]) for name, reward in (("a", 1.0), ("b", 0.0))]
    assert values(group, by_action) == [pytest.approx([0.5]), pytest.approx([0.5])]


@pytest.mark.usefixtures("plain_noise")
def test_effects_of_a_step_that_a_sibling_shares_are_surer():
    # a and b took x. Covariance [[2, 1], [1, 2]] beside ones; its inverse's rows sum to 1/3, 1/3, 1, 1, so the mean is
    # (1/3 + 1/3) / (8/3) = 1/4, the effect of x is (1/3 + 1/3) · 3/4 = 1/2, and V = 3/4.
    names = (("a", 1, "x"), ("b", 1, "x"), ("c", 0, "y"), ("d", 0, "y"))
    group = [CreditRollout(name, "g", reward, [tool(did)]) for name, reward, did in names]
    assert values(group, by_action)[0] == pytest.approx([0.75])
    assert values(group, by_action)[3] == pytest.approx([0.25])


@pytest.mark.usefixtures("plain_noise")
def test_value_without_own_reward_comes_from_the_others_alone():
    # Without a's own 0 only b speaks for x: the first example again, 2/3.
    group = [CreditRollout(n, "g", r, [tool(did)]) for n, r, did in (("a", 0, "x"), ("b", 1, "x"), ("c", 0, "y"))]
    (whole,) = groups_of(group)
    walk = walks(whole, incidence(whole, by_action), ONE_KIND)[0]
    assert walk.value_without.tolist() == pytest.approx([2 / 3])


@pytest.mark.parametrize("method", ["divergence", "anchor_state"])
def test_graph_methods_credit_the_step_where_the_siblings_part(method):
    credits = by_id(method, fork())
    for name, sign in (("a", 1), ("c", -1)):
        shares = [sign * share for share in credits[name].credits]
        assert max(shares) == shares[1]
        assert abs(shares[0]) < shares[1] / 4
    assert sum(credits["c"].credits) == pytest.approx(-1.0)
    assert credits["a"].support == [2, 2, 1]


def test_divergence_leaves_steps_behind_a_lone_step_without_interval():
    group = fork()
    group[2].steps.insert(2, tool("sit", "{}", "still a wall"))
    credit = by_id("divergence", group)["c"]
    assert credit.low[3] is None
    assert credit.support[3] == 0


def test_anchor_state_gives_a_failed_call_nothing():
    shared = tool("open", "{}", "two doors")
    failed = tool("go", "{", "not JSON", is_error=True)
    left = tool("go", '{"to": "left"}', "garden")
    group = [
        CreditRollout("a", "g", 1.0, [shared, failed, left, answer("out")]),
        CreditRollout("b", "g", 1.0, [shared, left, answer("out")]),
        CreditRollout("c", "g", 0.0, [shared, answer("gave up")]),
    ]
    credit = by_id("anchor_state", group)["a"]
    assert credit.credits[1] == pytest.approx(0.0, abs=1e-6)
    assert credit.credits[2] > 0.1


def test_prefix_value_without_other_items_says_that_it_knows_nothing():
    credit = by_id("prefix_value", fork())["c"]
    assert sum(credit.credits) == pytest.approx(-1.0)
    assert credit.low == [None] * 3
    assert credit.detail[0]["note"] == "too few rollouts of other items"
