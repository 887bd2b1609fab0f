"""Metrics against published figures and small tables worked by hand."""

import csv
import json
import math
from pathlib import Path

import pytest

from jobs.evaluations.metrics import METRICS, RolloutRow, ToolUse, compute_metrics, item_figures, pass_at, pass_hat

CASES = Path(__file__).parents[2] / "data/cases/rewards"
EXPECTED = json.loads((CASES / "expected_reward_stats.json").read_text())


def jsonl(name: str) -> list[dict]:
    return [json.loads(line) for line in (CASES / name).read_text().splitlines() if line]


def rows_of(*groups: list[float | None]) -> list[RolloutRow]:
    return [RolloutRow(group=str(n), reward=reward) for n, group in enumerate(groups) for reward in group]


def test_compute_metrics_of_a_published_evaluation_matches():
    data = json.loads((CASES / "zava_evalrun_step0_scores_50.json").read_text())
    want = EXPECTED["azure-rft/zava_evalrun_step0_scores_50.json"]
    rows = [RolloutRow(group=item["prompt"], reward=item["score"]) for item in data["items"]]

    got = compute_metrics(rows, pass_threshold=data["pass_threshold"])

    assert got["rollouts"] == want["n"]
    assert got["mean_reward"] == pytest.approx(want["mean"], abs=1e-6)
    assert got["median_reward"] == want["median"]
    assert got["std_reward"] == pytest.approx(want["std_population"], abs=1e-6)
    assert got["std_reward_sample"] == pytest.approx(want["std_sample"], abs=1e-6)
    assert got["pass_rate"] == want["pass_at_threshold_0.5"]
    assert got["passed"] == want["status_pass"]
    assert got["full_score_share"] == want["full_score_share"]
    assert (got["items"], got["groups_zero_variance"]) == (want["groups"], want["groups_with_zero_variance"])


def test_compute_metrics_of_a_published_benchmark_gives_its_pass_hat_k():
    with (CASES / "gpt4o_airline_rewards_200.csv").open(newline="") as lines:
        rows = [RolloutRow(group=row["task_id"], reward=float(row["reward"])) for row in csv.DictReader(lines)]
    want = EXPECTED["tau-bench/gpt4o_airline_rewards_200.csv"]

    got = compute_metrics(rows, pass_threshold=1.0)

    assert (got["rollouts"], got["items"], got["samples_per_item"]) == (want["n"], want["tasks"], want["trials"])
    assert got["mean_reward"] == pytest.approx(want["mean"])
    for k in range(1, 5):
        assert got["pass_hat"][str(k)] == pytest.approx(want[f"pass^{k}"], abs=1e-6)
    assert got["pass_at_k"] == pytest.approx(want["best_of_4"])
    assert got["best_of_k"] == pytest.approx(want["best_of_4"])
    assert (got["groups_none_pass"], got["groups_all_pass"]) == (want["groups_all_0"], want["groups_all_1"])


def test_compute_metrics_with_missing_and_nan_rewards_averages_the_scored_ones():
    rewards = [row["reward"] for row in jsonl("c047_group_with_nan.jsonl")]
    got = compute_metrics(rows_of(rewards[:3] + [math.nan]), pass_threshold=0.5)
    assert (got["mean_reward"], got["graded"], got["ungraded"], got["rollouts"]) == (0.5, 2, 2, 4)
    assert got["zero_variance_share"] == 0.0


def test_compute_metrics_with_failed_rollouts_names_both_denominators():
    rows = [
        RolloutRow(group="item", reward=row["reward"], status="done" if row["reward"] is not None else "failed")
        for row in jsonl("c143_ten.jsonl")
    ]
    got = compute_metrics(rows, pass_threshold=0.5)
    assert got["pass_rate"] == 7 / 8
    assert got["pass_rate_of_all"] == 7 / 10
    assert got["failed"] == 2


def test_compute_metrics_with_flat_groups_counts_them():
    rows = [RolloutRow(group=row["prompt_id"], reward=row["reward"]) for row in jsonl("c145_flat_groups.jsonl")]
    got = compute_metrics(rows, pass_threshold=0.5)
    assert got["zero_variance_share"] == 0.9
    assert got["learnable_share"] == pytest.approx(0.1)


def test_compute_metrics_without_any_grade_invents_no_numbers():
    got = compute_metrics(rows_of([None, None]), pass_threshold=0.5)
    for key in ("mean_reward", "pass_rate", "pass_at_k", "zero_variance_share", "best_of_k", "cost_usd"):
        assert got[key] is None, key
    assert compute_metrics([], pass_threshold=0.5)["rollouts"] == 0


def test_compute_metrics_is_plain_json_and_every_named_metric_is_there():
    got = compute_metrics(rows_of([0.0, 1.0], [1.0, None]), pass_threshold=0.5)
    json.dumps(got, allow_nan=False)
    assert set(METRICS) <= set(got)
    for metric in METRICS.values():
        assert metric.denominator
        assert metric.formula


@pytest.mark.parametrize(
    "n, c, k, at, hat", [(4, 2, 1, 0.5, 0.5), (4, 2, 2, 5 / 6, 1 / 6), (4, 0, 4, 0.0, 0.0), (4, 4, 4, 1, 1)]
)
def test_pass_at_and_pass_hat_of_small_groups_are_exact(n, c, k, at, hat):
    assert pass_at(n, c, k) == pytest.approx(at)
    assert pass_hat(n, c, k) == pytest.approx(hat)


def test_pass_at_k_leaves_out_items_with_too_few_grades_and_says_so():
    got = compute_metrics(rows_of([1.0, 0.0], [0.0, None]), pass_threshold=0.5)
    assert (got["pass_at_k"], got["pass_k_items"]) == (1.0, 1)


def test_mean_interval_counts_items_not_rollouts():
    """Eight equal rollouts of one item say no more than one of them."""
    few = compute_metrics(rows_of([0.0], [1.0], [1.0], [0.0]), pass_threshold=0.5)
    many = compute_metrics(rows_of([0.0] * 8, [1.0] * 8, [1.0] * 8, [0.0] * 8), pass_threshold=0.5)
    assert many["mean_reward_low"] == pytest.approx(few["mean_reward_low"])
    assert many["pass_rate_high"] == pytest.approx(few["pass_rate_high"], abs=0.02)


def test_item_figures_tell_why_an_item_teaches_nothing():
    kinds = [
        item.kind
        for item in item_figures(
            rows_of([0, 1, 0, 1], [0, 0, 0], [1, 1, 1], [0.4, 0.4, 0.4], [None, None]), pass_threshold=0.5
        )
    ]
    assert kinds == ["signal", "low", "high", "alike", "ungraded"]


def test_tool_figures_compare_rollouts_with_and_without_a_tool():
    rows = [
        RolloutRow("a", 1.0, tools=(ToolUse("lookup", 10), ToolUse("calc", 5))),
        RolloutRow("a", 0.0, tools=(ToolUse("lookup", 30, is_error=True),)),
    ]
    tools = {tool["name"]: tool for tool in compute_metrics(rows, pass_threshold=0.5)["tools"]}
    assert tools["lookup"]["calls_each"] == 1.0
    assert tools["lookup"]["error_share"] == 0.5
    assert tools["lookup"]["reward_difference"] is None
    assert tools["calc"]["reward_difference"] == 1.0


def test_failures_are_grouped_by_cause():
    rows = [RolloutRow("a", None, status="failed", stop_reason="tool_failed", error="lookup: 502")] * 3
    rows += [RolloutRow("a", None, stop_reason="answered", error="the judge did not answer")]
    causes = compute_metrics(rows, pass_threshold=0.5)["failures"]
    assert [(line["cause"], line["rollouts"]) for line in causes] == [("tool_failed", 3), ("grader_failed", 1)]
    assert causes[0]["example"] == "lookup: 502"


def test_reward_that_misses_the_pass_mark_in_its_last_bits_passes():
    assert 0.1 + 0.7 < 0.8
    row = RolloutRow("a", 0.1 + 0.7)
    assert row.passes(0.8)
    assert not RolloutRow("a", 0.7999).passes(0.8)
