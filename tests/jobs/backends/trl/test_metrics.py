"""Metrics of a train step: ungraded tries are counted and never averaged in."""

import pytest

from jobs.backends.trl.metrics import own_metrics, step_metrics
from tests.jobs.backends.trl.scored import scored

MULTI = {
    "type": "multi",
    "graders": {"answer": {"type": "string_check"}, "style": {"type": "score_model", "model": "m"}},
}


def test_ungraded_tries_leave_the_means():
    tries = [scored(reward=1.0), scored(reward=0.5), scored(reward=None, errors={"other_error": True})]
    metrics = step_metrics({"type": "string_check", "name": "x"}, tries, None, step=1, total_steps=2)
    assert metrics["train_mean_reward"] == 0.75
    assert metrics["mean_unresponsive_rewards"] == pytest.approx(1 / 3)
    assert metrics["errors"]["graders"][0]["train_other_error_count"] == 1.0
    assert own_metrics(tries, None, pass_threshold=0.75)["pass_rate"] == 0.5


def test_nothing_graded_gives_no_mean():
    metrics = step_metrics({"type": "x"}, [scored(reward=None)], None, step=1, total_steps=2)
    assert metrics["train_mean_reward"] is None
    assert metrics["scores"]["train_reward_mean"] is None


def test_every_grader_of_a_multi_has_its_row():
    tries = [scored(sub_rewards={"answer": 1.0, "style": None}), scored(sub_rewards={"answer": 0.0, "style": 0.5})]
    metrics = step_metrics(MULTI, tries, tries[:1], step=1, total_steps=2)
    answer, style = metrics["scores"]["graders"]
    assert (answer["name"], answer["train_reward_mean"], answer["valid_reward_mean"]) == ("answer", 0.5, 1.0)
    assert (style["type"], style["train_reward_mean"], style["valid_reward_mean"]) == ("score_model", 0.5, None)
    assert "train_model_grader_parse_error_mean" in metrics["errors"]["graders"][1]
    assert metrics["full_valid_mean_reward"] == 1.0


def test_tools_and_groups_without_signal_are_counted():
    tries = [
        scored("a", 1.0),
        scored("a", 1.0),
        scored("b", 1.0),
        scored("b", 0.0, calls=("lookup", "calc"), sizes=(1, 1, 1)),
    ]
    own = own_metrics(tries, None, pass_threshold=0.5)
    assert own["tools"] == {"calc": 0.25, "lookup": 1.0}
    assert own["zero_variance_share"] == 0.5
    assert own["stop_reasons"] == {"answered": 4}
