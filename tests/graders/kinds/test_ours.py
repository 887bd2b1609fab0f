"""Our own kinds, as tables of input and output."""

import pytest

from graders.grading import compile_grader
from graders.types import Sample


def reward(config, answer="", item=None, **sample):
    return compile_grader(config).grade(item or {}, Sample(output_text=answer, **sample)).reward


NUMERIC = {"type": "numeric", "input": "{{sample.output_text}}", "reference": "{{item.r}}"}


@pytest.mark.parametrize(
    "answer,reference,settings,expected",
    [
        ("145", "145", {}, 1.0),
        ("145.00", 145, {}, 1.0),
        ("$1,234.50", "1234.5", {}, 1.0),
        ("EUR 12", "12", {}, 1.0),
        ("−3", "-3", {}, 1.0),
        ("12 %", "12", {}, 1.0),
        ("101", "100", {"tolerance_abs": 1}, 1.0),
        ("101.5", "100", {"tolerance_abs": 1}, 0.0),
        ("101", "100", {"tolerance_rel": 0.01}, 1.0),
        ("105", "100", {"tolerance_rel": 0.0, "zero_at": 0.1}, 0.5),
        ("120", "100", {"zero_at": 0.1}, 0.0),
        ("it is 7, no 8", "8", {"extract": "last"}, 1.0),
        ("it is 8", "8", {}, 0.0),
        ("7 or 8", "8", {"extract": "only"}, 0.0),
        ("nan", "8", {}, 0.0),
        ("1_000", "1000", {}, 0.0),
        ("４２", "42", {}, 0.0),
        ("", "1", {}, 0.0),
        ("1", "unknown", {}, None),
    ],
)
def test_numeric(answer, reference, settings, expected):
    assert (
        reward({**NUMERIC, **settings}, answer, {"r": reference}) == pytest.approx(expected)
        if expected is not None
        else True
    )


SET = {"type": "set_f1", "input": "{{sample.output_text}}", "reference": "{{item.r}}"}


@pytest.mark.parametrize(
    "answer,reference,settings,expected",
    [
        ("a, b", ["a", "b"], {}, 1.0),
        ("b\na\na", ["a", "b"], {}, 1.0),
        ("Directive, Article 44; C-1", ["Directive, Article 44", "C-1"], {}, 1.0),
        ("Directive, Article 44", ["Directive, Article 44"], {}, 1.0),
        ('["A", "c"]', ["a", "b"], {}, 0.5),
        ("A", ["a"], {"case_sensitive": True}, 0.0),
        ("a", ["a", "b"], {"measure": "precision"}, 1.0),
        ("a", ["a", "b"], {"measure": "recall"}, 0.5),
        ("", [], {}, 1.0),
        ("", ["a"], {}, 0.0),
        ('[{"code": "A"}]', ["a"], {"key": "code"}, 1.0),
        ("{broken", ["a"], {}, 0.0),
    ],
)
def test_set_f1(answer, reference, settings, expected):
    assert reward({**SET, **settings}, answer, {"r": reference}) == pytest.approx(expected)


def call(name, arguments="{}"):
    return {"id": "", "type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = {"type": "tool_calls", "reference": "{{item.calls}}"}


@pytest.mark.parametrize(
    "made,wanted,settings,expected",
    [
        ([], [], {}, 1.0),
        ([call("a"), call("b")], [call("b"), call("a")], {}, 1.0),
        ([call("functions.a", '{"x": 1, "y": 2}')], [{"name": "a", "arguments": {"y": 2, "x": 1}}], {}, 1.0),
        ([call("a", '{"x": 1}')], [call("a", '{"x": 2}')], {}, 0.0),
        ([call("a", '{"x": 1}')], ["a"], {"match": "name"}, 1.0),
        ([call("a"), call("a")], [call("a")], {}, 2 / 3),
        ([call("a", '{"x"')], [call("a")], {}, 0.0),
        ([call("a")], {"tool_calls": [call("a")]}, {}, 1.0),
    ],
)
def test_tool_calls(made, wanted, settings, expected):
    assert reward({**TOOLS, **settings}, item={"calls": wanted}, output_tools=made) == pytest.approx(expected)


@pytest.mark.parametrize("count,expected", [(0, 1.0), (2, 1.0), (3, 0.5), (4, 0.0), (9, 0.0)])
def test_tool_budget(count, expected):
    config = {"type": "tool_budget", "max_calls": 2, "penalty": 0.5}
    assert reward(config, output_tools=[call("a")] * count) == expected


def test_token_budget_counts_all_turns():
    config = {"type": "token_budget", "max_tokens": 1000, "penalty": 0.5}
    assert reward(config, usage={"output_tokens": 2000}) == 0.5
    assert reward(config, steps=[{"output_tokens": 600}, {"output_tokens": 900}]) == 0.75
    assert reward(config) is None


@pytest.mark.parametrize(
    "settings,answer,expected",
    [
        ({"pattern": r"\bArt\. ?\d+"}, "see Art. 44", 1.0),
        ({"pattern": "^[A-Z]+$", "whole": True}, "abc", 0.0),
        ({"pattern": "abc", "flags": "i"}, "xABCx", 1.0),
        ({"pattern": "sorry", "negate": True}, "sorry", 0.0),
        ({"pattern": r"(a+)+$"}, "a" * 5000 + "b", None),
    ],
)
def test_regex_never_hangs(settings, answer, expected):
    assert reward({"type": "regex", "input": "{{sample.output_text}}", **settings}, answer) == expected


SCHEMA = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"], "additionalProperties": False}


@pytest.mark.parametrize("answer,expected", [('{"n": 1}', 1.0), ('{"n": "1"}', 0.0), ("n: 1", 0.0), ("[]", 0.0)])
def test_json_schema(answer, expected):
    assert reward({"type": "json_schema", "input": "{{sample.output_text}}", "schema": SCHEMA}, answer) == expected


def test_json_schema_says_why():
    config = {"type": "json_schema", "input": "{{sample.output_text}}", "schema": SCHEMA}
    assert "'n' is a required property" in compile_grader(config).grade({}, Sample(output_text="{}")).details


STEPS = [{"text": "a", "tool_calls": []}, {"text": "b", "tool_calls": [{"name": "t", "arguments": "{}"}]}]


@pytest.mark.parametrize("combine,expected", [("mean", 0.5), ("sum", 1.0), ("last", 1.0), ("min", 0.0), ("max", 1.0)])
def test_steps_grades_every_step(combine, expected):
    inner = {"type": "string_check", "operation": "eq", "input": "{{sample.output_text}}", "reference": "b"}
    grade = compile_grader({"type": "steps", "grader": inner, "combine": combine}).grade({}, Sample(steps=STEPS))
    assert (grade.reward, grade.step_rewards) == (expected, [0.0, 1.0])


def test_steps_with_a_step_that_cannot_be_graded_is_ungraded():
    inner = {"type": "string_check", "operation": "eq", "input": "{{sample.output_json.x}}", "reference": "b"}
    grade = compile_grader({"type": "steps", "grader": inner}).grade({}, Sample(steps=STEPS))
    assert grade.reward is None
    assert grade.errors == {"sample_parse_error": True}
    assert "Step 1" in grade.details


def test_python_may_mark_every_step():
    source = "def grade(sample, item): return 0.8\ndef grade_steps(sample, item): return [0.1, None, 0.5]"
    grade = compile_grader({"type": "python", "source": source}).grade({}, Sample())
    assert (grade.reward, grade.step_rewards) == (0.8, [0.1, None, 0.5])


def test_tool_call_numbers_are_compared_as_numbers():
    config = {"type": "tool_calls", "reference": "{{item.calls}}"}
    wanted = [{"name": "pay", "arguments": {"amount": 145, "parts": [{"n": 1}]}}]
    made = {
        "id": "",
        "type": "function",
        "function": {"name": "pay", "arguments": '{"parts":[{"n":1.0}],"amount":145.0}'},
    }
    assert compile_grader(config).grade({"calls": wanted}, Sample(output_tools=[made])).reward == 1.0


def _nested(depth: int) -> dict:
    value: dict = {"a": 1.0}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "arguments", ['{"a":' * 5000, '{"a":' * 500 + "1" + "}" * 500, _nested(500), _nested(5000)], ids=range(4)
)
def test_call_nested_too_deep_is_a_wrong_call_not_a_broken_grader(arguments):
    config = {"type": "tool_calls", "reference": "{{item.calls}}"}
    made = {"function": {"name": "pay", "arguments": arguments}}
    grade = compile_grader(config).grade({"calls": ["pay"]}, Sample(output_tools=[made]))
    assert (grade.reward, grade.errors) == (0.0, {})


def test_set_without_a_reference_is_ungraded_and_accents_are_compared_as_read():
    config = {"type": "set_f1", "input": "{{sample.output_text}}", "reference": "{{item.r}}"}
    grader = compile_grader(config)
    assert grader.grade({"r": None}, Sample(output_text="a")).reward is None
    assert grader.grade({"r": ["Cristóbal"]}, Sample(output_text="Cristo\u0301bal")).reward == 1.0
