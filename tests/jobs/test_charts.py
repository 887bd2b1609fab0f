"""Figures of a job: what they draw, and where each mark leads."""

from urllib.parse import parse_qs, urlparse

from jobs import charts
from jobs.figures import StepFigures

LIST = "/t/x/rollouts/"


def run(count: int, **more) -> list[StepFigures]:
    return [
        StepFigures(number=n, mean_reward=0.4 + n / 100, validation_reward=0.5 if n % 5 == 0 else None, **more)
        for n in range(1, count + 1)
    ]


def traces(figure) -> dict[str, dict]:
    return {trace["name"]: trace for trace in figure["data"] if trace.get("name")}


def opened(trace, x: int) -> dict[str, list[str]]:
    """The query that a click on the point at x asks the list for."""
    address = urlparse(trace["meta"]["open"] + str(x))
    assert address.path == LIST
    return parse_qs(address.query)


def test_reward_chart_opens_train_points_and_checks_on_their_own_rollouts():
    drawn = traces(charts.reward_chart(run(10), total=20, baseline=0.46, list_url=LIST, source="ftjob-1"))
    assert opened(drawn["train"], 7) == {"source": ["ftjob-1"], "kind": ["train_step"], "train_step": ["7"]}
    assert opened(drawn["validation, 90 % interval"], 5)["kind"] == ["validation"]


def test_reward_chart_keeps_a_wide_interval_within_the_rewards_there_are():
    wide = [
        StepFigures(number=n, mean_reward=0.6, validation_reward=0.7, validation_low=-0.4, validation_high=1.8)
        for n in (1, 2)
    ]

    def drawn(ends):
        figure = charts.reward_chart(wide, total=2, baseline=0.5, ends=ends)
        band = next(trace for trace in figure["data"] if trace.get("fill") == "toself")
        hover = traces(figure)["validation, 90 % interval"]["text"][0]
        return band["y"], figure["layout"]["yaxis"].get("autorangeoptions"), hover

    for ends, band, axis in (
        ((0.0, 1.0), [1.0, 1.0, 0.0, 0.0], {"clipmin": 0.0, "clipmax": 1.0}),
        ((0.0, 0.65), [0.7, 0.7, 0.0, 0.0], {"clipmin": 0.0, "clipmax": 0.7}),  # a value beyond is not hidden
        (None, [1.8, 1.8, -0.4, -0.4], None),
    ):
        assert drawn(ends)[:2] == (band, axis)
        assert "−0.40 to 1.80" in drawn(ends)[2]


def test_reward_chart_marks_alarms_checkpoints_baseline_and_what_is_to_come():
    figure = charts.reward_chart(
        run(10), total=20, baseline=0.46, checkpoints=[(5, "/t/x/try/"), (10, "/t/x/try2/")],
        alarms=[(7, "The reward may be gamed", "/t/x/rollouts/?q")],
    )  # fmt: skip
    drawn, layout = traces(figure), figure["layout"]
    assert (drawn["alarm"]["x"], drawn["alarm"]["customdata"]) == ([7], ["/t/x/rollouts/?q"])
    assert drawn["alarm"]["text"] == ["The reward may be gamed, since train step 7"]
    assert (drawn["checkpoint"]["x"], drawn["checkpoint"]["customdata"]) == ([5, 10], ["/t/x/try/", "/t/x/try2/"])
    assert {"baseline 0.46", "still to come", "train 0.48", "validation 0.50 (+0.04)"} == {
        note["text"] for note in layout["annotations"] if note["text"]
    }, "smoothed over the last five: 0.4 + (6 + 7 + 8 + 9 + 10) / 500"
    come = next(shape for shape in layout["shapes"] if shape["type"] == "rect")
    assert (come["x0"], come["x1"]) == (10, 20)
    assert any(shape["type"] == "line" and shape["x0"] == shape["x1"] == 7 for shape in layout["shapes"])


def test_reward_chart_of_an_ended_job_has_nothing_to_come():
    figure = charts.reward_chart(run(10), total=20, baseline=None, is_ended=True)
    assert "still to come" not in [note["text"] for note in figure["layout"]["annotations"]]


def test_long_job_is_thinned_to_extremes_checks_and_ends_and_smoothed_before():
    steps = [
        StepFigures(number=n, mean_reward=0.9 if n == 5000 else 0.1 if n == 7000 else 0.5,
                    validation_reward=0.7 if n == 6000 else 0.6 if n % 10 == 0 else None)
        for n in range(1, 10_001)
    ]  # fmt: skip
    kept = charts.thin(steps)
    assert len(kept) <= 1002
    assert {1, 5000, 6000, 7000, 10_000} <= {step.number for step in kept}
    smooth = traces(charts.reward_chart(steps, total=10_000, baseline=None))["train, smoothed"]
    at = dict(zip(smooth["x"], smooth["y"], strict=True))
    assert round(at[5000], 6) == 0.58, "(4 * 0.5 + 0.9) / 5, not a mean of the extremes that are left"


def test_tools_flat_groups_and_parts_open_what_they_count():
    steps = run(6, groups=4, groups_low=1, groups_high=1, tools={"look_up": 2.0}, sub_rewards={"a": 0.3, "b": 0.6},
                validation_sub_rewards={"a": 0.2})  # fmt: skip
    where = {"list_url": LIST, "source": "ftjob-1"}
    tools = traces(charts.tools_chart(steps, known=["look_up"], **where))
    assert opened(tools["look_up"], 3)["tool"] == ["look_up"]
    flat = traces(charts.flat_chart(steps, limit=0.6, **where))
    assert opened(flat["all low"], 3) == {
        "source": ["ftjob-1"], "kind": ["train_step"], "alike": ["1"], "passed": ["0"], "train_step": ["3"]
    }  # fmt: skip
    assert opened(flat["all high"], 3)["passed"] == ["1"]
    parts = charts.parts_chart(steps, **where)
    kinds = [(trace["name"], trace["mode"], opened(trace, 3)["kind"][0]) for trace in parts["data"]]
    assert kinds == [("a", "lines", "train_step"), ("a", "markers", "validation"), ("b", "lines", "train_step")]
    assert opened(charts.small_chart(run(3, entropy=1.2), "entropy", **where)["data"][0], 2)["train_step"] == ["2"]
