"""Readiness: each line alone, then the verdict."""

import pytest

from jobs.evaluations.facts import BLOCK, OK, WARN, Facts
from jobs.evaluations.metrics import RolloutRow, compute_metrics
from jobs.evaluations.readiness import readiness_lines, verdict

GOOD = compute_metrics(
    [RolloutRow(group=str(n), reward=reward) for n in range(10) for reward in (0.0, 0.3, 1.0)], pass_threshold=0.5
)


def facts(**changes) -> Facts:
    metrics = {**GOOD, **changes.pop("metrics", {})}
    base = {
        "train_items": 200,
        "validation_items": 40,
        "checked_rows": 240,
        "versions_measured": 2,
        "other_graders": 1,
        "model_name": "tiny",
    }
    return Facts(metrics=metrics, **{**base, **changes})


def line(key: str, **changes):
    return next(line for line in readiness_lines(facts(**changes)) if line.key == key)


def test_readiness_of_a_good_baseline_is_ready():
    found = verdict(readiness_lines(facts()))
    assert (found["level"], found["title"]) == (OK, "Ready")


@pytest.mark.parametrize(
    "key, changes, level, words",
    [
        ("finished", {"is_finished": False}, BLOCK, "too early"),
        ("finished", {"is_cancelled": True}, BLOCK, "cancelled"),
        (
            "grader_fields",
            {"missing_fields": {"item.reference_answer": 40}, "checked_rows": 40},
            BLOCK,
            "40 of 40 rows lack item.reference_answer",
        ),
        ("grader_fields", {"missing_fields": {"item.note": 1}, "checked_rows": 40}, WARN, "1 of 40"),
        ("grader_fields", {"grader_problems": ["The formula names no sub-grader."]}, BLOCK, "formula"),
        ("trainable", {"is_trainable": False}, BLOCK, "only answers"),
        ("foothold", {"metrics": {"pass_at_k": 0.0, "learnable_items": 0}}, BLOCK, "supervised"),
        ("foothold", {"metrics": {"pass_at_k": 0.1}}, WARN, "slowly"),
        ("signal", {"metrics": {"learnable_share": 0.0, "learnable_items": 0}}, BLOCK, "teach nothing"),
        ("signal", {"metrics": {"learnable_share": 0.2}}, WARN, "teach nothing"),
        ("signal", {"metrics": {"learnable_share": None}}, BLOCK, "two graded"),
        ("headroom", {"metrics": {"pass_rate": 0.1}}, WARN, "no success"),
        ("method", {"metrics": {"tool_calls": 0, "steps_max": 1}, "checked_rows": 9}, WARN, "quicker method"),
        ("headroom", {"metrics": {"pass_rate": 1.0, "learnable_items": 0}}, BLOCK, "nothing to gain"),
        ("failures", {"metrics": {"ungraded_share": 0.05, "ungraded": 2}}, WARN, "no reward"),
        ("failures", {"metrics": {"ungraded_share": 0.5}}, BLOCK, "no reward"),
        ("items", {"train_items": 3}, BLOCK, "at least 8"),
        ("items", {"train_items": 50}, WARN, "50 train"),
        ("leak", {"leaked_items": 40}, BLOCK, "flatter"),
        ("leak", {"leaked_items": 1}, WARN, "flatter"),
        ("graded", {"metrics": {"distinct_rewards": 2}}, WARN, "right or wrong"),
        (
            "tools",
            {"metrics": {"tool_calls": 10, "tool_p95_milliseconds": 9000.0, "tool_error_share": 0.0}},
            WARN,
            "9.00 s",
        ),
        ("agreement", {"label_agreement": 0.7, "labelled_rollouts": 64}, WARN, "64"),
        ("gaming", {"tricks_tried": 6, "tricks_passed": ["an empty answer"]}, WARN, "an empty answer"),
        ("iterated", {"versions_measured": 1}, WARN, "Only one version"),
        ("independent", {"other_graders": 0}, WARN, "gamed"),
        ("budget", {}, OK, "no quota"),
        ("budget", {"budget_left_usd": 5.0}, OK, "no price"),
        ("budget", {"budget_left_usd": 0.0}, BLOCK, "Nothing is left"),
        # 30 rollouts for $0.30 are a cent each; 200 train items × 8 make $16.
        ("budget", {"budget_left_usd": 16.5, "metrics": {"cost_usd": 0.3, "cost_rollouts": 30}}, OK, "$0.0100 each"),
        ("budget", {"budget_left_usd": 15.5, "metrics": {"cost_usd": 0.3, "cost_rollouts": 30}}, WARN, "stop before"),
    ],
)
def test_readiness_line_names_level_and_evidence(key, changes, level, words):
    found = line(key, **changes)
    assert found.level == level
    assert words in found.evidence
    assert found.remedy is None or found.remedy.label
    assert level == OK or found.remedy or key in {"headroom"}


def test_readiness_lines_stand_blocks_first():
    levels = [found.level for found in readiness_lines(facts(is_trainable=False, versions_measured=1))]
    assert levels[0] == BLOCK
    assert levels[1] == WARN
    assert levels == sorted(levels, key=[BLOCK, WARN, OK].index)


def test_remedies_lead_to_the_page_where_it_is_done():
    assert line("iterated", versions_measured=1, urls={"agent": "/t/x/agents/a/"}).remedy.url == "/t/x/agents/a/"
