"""Python graders: what counts as a reward, and what an author is told."""

import pytest

from graders.clients import GraderClients
from graders.grading import compile_grader
from graders.sandbox_process import PythonLimits
from graders.types import Sample
from graders.validation import grader_problems
from tests.graders.cases import load, load_lines

ITEM, SAMPLE = {"reference_answer": "yes"}, Sample(output_text="yes")


def graded(source_or_config, seconds=5.0, item=ITEM, sample=SAMPLE):
    config = source_or_config if isinstance(source_or_config, dict) else {"type": "python", "source": source_or_config}
    return compile_grader(config, GraderClients(owner="t", python=PythonLimits(seconds))).grade(item, sample)


RETURNED = {config["name"]: config for config in load("c046_return_types.json")}


@pytest.mark.parametrize(
    "name,reward,said",
    [
        ("text", None, "returned a str"),
        ("boolean", 1.0, ""),
        ("list", None, "returned a list"),
        ("none", None, "returned NoneType"),
        ("tuple", None, "returned a tuple"),
        ("nan", None, "not a finite number"),
        ("inf", None, "not a finite number"),
        ("minus", -3.0, ""),
        ("big", None, "too large"),
        ("loud", 1.0, "more characters were dropped"),
        ("noargs", 1.0, ""),
    ],
)
def test_only_a_finite_number_is_a_reward(name, reward, said):
    grade = graded(RETURNED[name])
    assert grade.reward == reward
    assert said in grade.details
    assert len(grade.details) < 20_000
    if reward is None:
        assert grade.errors["python_grader_runtime_error"] is True


def test_numpy_numbers_count():
    assert graded("import numpy as np\ndef grade(s, i): return np.float32(0.5)").reward == 0.5


def test_signal_alarm_works_and_does_not_reach_the_next_call():
    assert graded(load("c040_signal.json")).reward == 1.0
    left_on = "import signal, time\ndef grade(s, i):\n    signal.setitimer(signal.ITIMER_REAL, 0.05)\n    return 1.0"
    grader = compile_grader({"type": "python", "source": left_on}, GraderClients(owner="t"))
    import time

    for _ in range(3):
        assert grader.grade(ITEM, SAMPLE).reward == 1.0
        time.sleep(0.08)


def test_grade_runs_in_the_main_thread():
    assert graded(load("c041_main_thread.json")).reward == 1.0


def test_one_endless_row_leaves_the_others_graded():
    config = {**load("c042_slow_on_one.json"), "timeout_seconds": 0.5}
    grades = [graded(config, item=row) for row in load_lines("c042_rows.jsonl")]
    assert [grade.reward for grade in grades] == [1.0, 1.0, None, 1.0, 1.0, 1.0]
    assert "longer than 0.5 s" in grades[2].details


def test_no_secrets_and_no_network():
    assert graded(load("c044_env.json")).reward == 0.0
    assert "socket is not available" in graded(load("c044_net.json")).details


def test_traceback_shows_the_authors_line():
    grade = graded("def grade(sample, item):\n    x = item['nothing']\n    return x")
    trace = grade.errors["python_grader_runtime_error_details"]
    assert 'File "grader.py", line 2, in grade' in trace
    assert "x = item['nothing']" in trace
    assert "(line 2)" in grade.details


def test_lone_surrogates_and_huge_integers_reach_the_grader():
    source = "def grade(s, i): return float(s['output_text'] == '\\ud800' and i['n'] == 10 ** 30)"
    assert graded(source, item={"n": 10**30}, sample=Sample(output_text="\ud800")).reward == 1.0


@pytest.mark.parametrize(
    "library", ["scipy.stats", "sklearn.metrics", "jsonschema", "rouge_score.rouge_scorer", "nltk"]
)
def test_libraries_load_before_the_lock(library):
    assert graded(f"import {library}\ndef grade(s, i): return 1.0", seconds=20).reward == 1.0


@pytest.mark.parametrize(
    "source,code",
    [
        ("def grade(sample, item)\n    return 1", "source_syntax"),
        ("def score(sample, item): return 1", "source_no_grade"),
        ("def grade(sample): return 1", "source_signature"),
        ("def grade(a, b, c): return 1", "source_signature"),
        ("import socket\ndef grade(a, b): return 1", "source_import"),
        ("x = '" + "y" * 300_000 + "'\ndef grade(a, b): return 1", "source_too_long"),
        ("\x00", "source_syntax"),
    ],
)
def test_source_is_checked_before_it_runs(source, code):
    assert code in {problem.code for problem in grader_problems({"type": "python", "source": source})}


@pytest.mark.parametrize(
    "source", ["def grade(a, b=1, *c): return 1", "from helpers import *", "grade = lambda s, i: 1"]
)
def test_unusual_sources_are_let_through(source):
    assert not [p for p in grader_problems({"type": "python", "source": source}) if p.level == "error"]
