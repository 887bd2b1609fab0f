"""Credits worked out by hand, one small group per method."""

import pytest

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


@pytest.mark.parametrize("method", ["divergence", "anchor_state"])
def test_graph_methods_credit_the_step_where_the_siblings_part(method):
    credits = by_id(method, fork())
    # a: baseline 0.5 from b and c. After "left" only b is there: (1 + 0.5) / 2 = 0.75. The answer closes to 1.
    assert credits["a"].credits == pytest.approx([0.0, 0.25, 0.25])
    # c: baseline 1. Nobody else went right: the whole fall of 1 is shared by the parting step and what follows.
    assert credits["c"].credits[0] == 0.0
    assert sum(credits["c"].credits) == pytest.approx(-1.0)
    assert credits["c"].credits[1] <= -0.5
    assert credits["a"].support[:2] == [2, 2]


def test_divergence_leaves_steps_after_the_parting_without_interval():
    credit = by_id("divergence", fork())["c"]
    assert credit.low[2] is None
    assert credit.support[2] == 0


def test_anchor_state_meets_again_after_a_failed_call():
    shared = tool("open", "{}", "two doors")
    failed = tool("go", "{", "not JSON", is_error=True)
    left = tool("go", '{"to": "left"}', "garden")
    group = [
        CreditRollout("a", "g", 1.0, [shared, failed, left, answer("out")]),
        CreditRollout("b", "g", 1.0, [shared, left, answer("out")]),
        CreditRollout("c", "g", 0.0, [shared, answer("gave up")]),
    ]
    credit = by_id("anchor_state", group)["a"]
    assert credit.credits[1] == 0.0
    assert credit.credits[2] == pytest.approx(0.25)


def test_prefix_value_without_other_items_says_that_it_knows_nothing():
    credit = by_id("prefix_value", fork())["c"]
    assert sum(credit.credits) == pytest.approx(-1.0)
    assert credit.low == [None] * 3
    assert credit.detail[0]["note"] == "too few rollouts of other items"
