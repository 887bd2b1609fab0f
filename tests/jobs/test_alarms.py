"""Alarms over train steps, as plain tables."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.alarms import OK, WARN, Opinion, alarms_of, stop_reason
from jobs.evaluations.metrics import RolloutRow, ToolUse
from jobs.figures import StepFigures, batch_figures

CASES = Path(__file__).parents[1] / "data/cases/rewards"


def series(count: int = 12, **of) -> list[StepFigures]:
    """Steps whose fields are given as functions of the step's place, 0 to 1."""
    return [
        StepFigures(number=n + 1, **{name: make(n / (count - 1)) for name, make in of.items()}) for n in range(count)
    ]


def found(steps, key):
    return next((alarm for alarm in alarms_of(steps) if alarm.key == key), None)


def test_gap_alarm_on_a_run_that_memorises_names_the_best_step():
    rows = [json.loads(line) for line in (CASES / "c057_gap.jsonl").read_text().splitlines()]
    steps = [
        StepFigures(number=row["step"], mean_reward=row["train_reward"], validation_reward=row["valid_reward"])
        for row in rows
    ]
    alarm = found(steps, "gap")
    assert alarm.level == WARN
    assert "more than 0.10" in alarm.text
    assert "best at train step 0 (0.40)" in alarm.text


def test_another_grader_that_sees_the_checkpoint_fall_is_an_alarm_and_pauses_a_job_that_watches_for_gaming():
    steps = series(mean_reward=lambda x: 0.4 + x / 3, validation_reward=lambda x: 0.4 + x / 3)
    fell = Opinion(step=10, grader="Strict", before=0.50, after=0.41, source="evalrun_2")
    rose = Opinion(step=5, grader="Strict", before=0.50, after=0.55, source="evalrun_1")
    (alarm,) = [one for one in alarms_of(steps, [rose, fell]) if one.key == "independent"]
    assert (alarm.level, alarm.step, alarm.source) == (WARN, 10, "evalrun_2")
    assert "Strict gives train step 10 0.41 and the base 0.50" in alarm.text
    assert "Another grader" in stop_reason(steps, {"stop_alarm": "gaming"}, None, [fell])
    assert stop_reason(steps, {"stop_alarm": "gaming"}, None, [rose]) == ""
    agrees = Opinion(step=10, grader="Kind", before=0.50, after=0.60, source="evalrun_3")
    for opinions in ([fell, agrees], [agrees, fell]):
        assert "Strict" in stop_reason(steps, {"stop_alarm": "gaming"}, None, opinions), "in whatever order they stand"
    flat = series(mean_reward=lambda x: 0.4)
    assert [one.level for one in alarms_of(flat, [fell]) if one.key == "independent"] == [OK], (
        "the reward does not rise"
    )


def test_gap_alarm_on_a_sound_run_says_what_it_looked_at():
    steps = series(mean_reward=lambda x: 0.4 + x / 3, validation_reward=lambda x: 0.4 + x / 3)
    assert (found(steps, "gap").level, alarms_of(steps)[0].level) == (OK, OK)
    assert "would come at 0.10" in found(steps, "gap").text


def test_tools_alarm_when_calls_fall_to_a_quarter():
    assert found(series(tools=lambda x: {"lookup": 4 * (1 - x)}), "tools").level == WARN
    assert found(series(tools=lambda x: {"lookup": 4 - x}), "tools") is None
    assert found(series(tools=lambda x: {}), "tools") is None


@pytest.mark.parametrize(
    "tokens, reward, names",
    [
        (lambda x: 100 + 900 * x, lambda x: 0.5, {"length": "Lengths run away"}),
        (lambda x: 100 * (1.01 - x), lambda x: 0.2 + 0.7 * x, {"short": "Answers shrink while the reward rises"}),
        (lambda x: 100 + 20 * x, lambda x: 0.5, {}),
    ],
)
def test_length_alarm(tokens, reward, names):
    alarms = alarms_of(series(tokens_mean=tokens, mean_reward=reward))
    assert {alarm.key: alarm.name for alarm in alarms if alarm.level == WARN} == names


def test_ungraded_alarm_over_five_percent():
    assert found(series(ungraded_share=lambda x: 0.08), "ungraded").query.endswith("graded=0")
    assert found(series(ungraded_share=lambda x: 0.02), "ungraded") is None


def test_gaming_alarm_when_one_part_climbs_alone():
    climbs = series(sub_rewards=lambda x: {"citations": 0.5 + 0.4 * x, "conclusion": 0.5})
    assert "citations rose" in found(climbs, "gaming").text
    both = series(sub_rewards=lambda x: {"citations": 0.5 + 0.4 * x, "conclusion": 0.5 + 0.3 * x})
    assert found(both, "gaming") is None
    full = series(sub_rewards=lambda x: {"exact": 0.4 + 0.5 * x, "brevity": 1.0})
    assert found(full, "gaming") is None, "a part that is full already cannot rise"


def test_dominance_alarm_when_the_reward_comes_to_follow_one_part_alone():
    now = {"citations": 0.847, "conclusion": 0.5}

    def run(start: float, end: float, parts=now) -> list[StepFigures]:
        follows = {
            "decides": lambda x: {"citations": end if x > 0.5 else start, "conclusion": 0.02 if x > 0.5 else 0.4}
        }
        return series(sub_rewards=lambda x: parts, **follows)

    alarm = found(run(0.6, 0.98), "dominance")
    assert "citations explains 98 % of how the latest rewards differ, up from 60 %" in alarm.text
    assert alarm.query == "kind=train_step&train_step=12-12&sub_reward=citations:0.84-"
    assert found(run(0.6, 0.9), "dominance") is None
    assert found(run(0.98, 0.98), "dominance") is None, "so it was from the start"
    assert found(run(0.6, 0.98, now | {"conclusion": 1.0}), "dominance") is None, "the other part is full"


def test_alarm_is_dated_from_the_train_step_on_which_it_stands():
    # Calls per rollout: 4 for ten steps, then none. The last five are below a quarter of 4 from step 14 on (4 of 5 are 0).
    steps = [StepFigures(number=n, tools={"lookup": 4.0 if n <= 10 else 0.0}) for n in range(1, 201)]
    alarm = found(steps, "tools")
    assert alarm.step == 14
    assert alarm.query == "kind=train_step&train_step=196-200&calls=0-1"


def test_signal_alarm_says_why_groups_are_alike():
    solved = series(groups=lambda x: 8, groups_high=lambda x: 6)
    assert "solved already" in found(solved, "signal").text
    lost = series(groups=lambda x: 8, groups_low=lambda x: 7)
    assert "never succeed" in found(lost, "signal").text


def test_alarms_of_nothing_are_none():
    assert alarms_of([]) == []


@pytest.mark.parametrize(
    "steps, plan, cost, words",
    [
        (series(groups=lambda x: 8, groups_high=lambda x: 6), {"stop_zero_variance": 0.6}, None, "no-signal rule"),
        (series(groups=lambda x: 8, groups_high=lambda x: 6), {"stop_zero_variance": 0.8}, None, ""),
        (series(groups=lambda x: 8, groups_high=lambda x: 6), {"stop_zero_variance": None}, None, ""),
        (series(ungraded_share=lambda x: 0.5), {"stop_ungraded": 0.2}, None, "ungraded"),
        (series(1 + 1, ungraded_share=lambda x: 0.1), {"stop_ungraded": 0.2}, None, ""),
        (series(), {"stop_usd": 0.5}, 0.511, "$0.51"),
        (series(), {"stop_usd": 0.5}, 0.438, ""),
        (series(), {"stop_usd": 0.5}, None, ""),
    ],
)
def test_stop_reason_follows_the_jobs_own_rules(steps, plan, cost, words):
    reason = stop_reason(steps, plan, cost)
    assert words in reason if words else reason == ""


RUNS_OFF = series(mean_reward=lambda x: 0.4 + x / 2, validation_reward=lambda x: 0.4)
NO_TOOLS = series(tools=lambda x: {"lookup": 0.0 if x > 0.5 else 2.0})


@pytest.mark.parametrize(
    "steps, rule, words",
    [
        (RUNS_OFF, "gaming", "alarm: Train runs away from validation."),
        (RUNS_OFF, "any", "alarm: Train runs away from validation."),
        (RUNS_OFF, "never", ""),
        (NO_TOOLS, "any", "alarm: Tools are no longer used."),
        (NO_TOOLS, "gaming", ""),
    ],
)
def test_alarm_pauses_when_the_plan_says_so(steps, rule, words):
    reason = stop_reason(steps, {"stop_alarm": rule}, None)
    assert words in reason if words else reason == ""


def test_muted_alarm_pauses_nothing_and_is_not_open():
    both = [replace(off, tools=none.tools) for off, none in zip(RUNS_OFF, NO_TOOLS, strict=True)]
    alarms = alarms_of(both, muted={"gap": "Ana"})
    assert [(alarm.key, alarm.is_open, alarm.muted_by) for alarm in alarms] == [
        ("tools", True, ""), ("gap", False, "Ana"),
    ]  # fmt: skip
    assert "Tools are no longer used" in stop_reason(both, {"stop_alarm": "any"}, None, muted={"gap": "Ana"})
    assert stop_reason(both, {"stop_alarm": "gaming"}, None, muted={"gap": "Ana"}) == ""
    well = alarms_of(series(mean_reward=lambda x: 0.4, validation_reward=lambda x: 0.4), muted={"gap": "Ana"})
    assert [(alarm.level, alarm.muted_by) for alarm in well] == [(OK, "")], "what is well is not muted"


def test_batch_figures_split_groups_without_signal():
    rows = [
        RolloutRow(str(group), reward, tools=(ToolUse("lookup"),), sub_rewards={"exact": reward}, output_tokens=10)
        for group, rewards in enumerate([[0, 0], [1, 1], [0, 1], [None, None], [0, None]])
        for reward in rewards
    ]
    found = batch_figures(rows, pass_threshold=0.5)
    assert (found["groups"], found["groups_low"], found["groups_high"]) == (3, 1, 1)
    assert found["ungraded_share"] == 0.3
    assert found["tools"] == {"lookup": 1.0}
    assert found["sub_rewards"] == {"exact": pytest.approx(3 / 7)}
    assert found["decides"] == {"exact": pytest.approx(1.0)}, "the reward is that part"
    # Seven rewards in four groups. By hand: error sqrt(2.245 * 4 / 3) / 7 = 0.2472, times Student's 2.3534 (3 degrees).
    assert found["interval"] == (pytest.approx(3 / 7 - 0.5816, abs=2e-3), pytest.approx(3 / 7 + 0.5816, abs=2e-3))


def test_batch_figures_say_how_much_of_the_reward_each_part_explains():
    # Pearson's r between (0, 0, 1, 1) and (0, 1, 1, 1) is 1/sqrt(3); with (1, 1, 1, 1) there is none.
    parts = [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 1.0)]
    rows = [RolloutRow("g", reward, sub_rewards={"a": part, "full": 1.0}) for reward, part in parts]
    assert batch_figures(rows, pass_threshold=0.5)["decides"] == {"a": pytest.approx(1 / 3), "full": 0.0}
    rows.append(RolloutRow("g", 1.0, sub_rewards={"a": 1.0}))
    assert batch_figures(rows, pass_threshold=0.5)["decides"] == {}, "a part is missing somewhere"
