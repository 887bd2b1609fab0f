"""Laws over arbitrary recipes, items and samples: a reward is a finite number, or it is absent and says why."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graders.failures import GraderInvalid
from graders.formula import Formula, FormulaError
from graders.grading import compile_grader
from graders.samples import sample_from
from graders.similarity import METRICS, metric
from graders.templating import Template, TemplateError
from graders.types import NO_ERRORS
from graders.validation import grader_problems, normalised

FAST = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
text = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
template = (
    st.sampled_from(
        [
            "{{sample.output_text}}",
            "{{item.a}}",
            "{{item.a.b[0]}}",
            "{{sample.output_json.a}}",
            "{{sample.output_tools}}",
            "x",
            "",
        ]
    )
    | text
)
number = st.floats() | st.integers(-5, 5) | st.just("7")
leaf = st.one_of(
    st.builds(lambda i, r, o: {"type": "string_check", "input": i, "reference": r, "operation": o},
              template, template, st.sampled_from(["eq", "ne", "like", "ilike"])),
    st.builds(lambda i, r, m: {"type": "text_similarity", "input": i, "reference": r, "evaluation_metric": m},
              template, template, st.sampled_from(list(METRICS))),
    st.builds(lambda i, r, n, z: {"type": "numeric", "input": i, "reference": r, "tolerance_abs": n, "zero_at": z},
              template, template, number, number),
    st.builds(lambda i, r: {"type": "set_f1", "input": i, "reference": r}, template, template),
    st.builds(lambda r: {"type": "tool_calls", "reference": r}, template),
    st.builds(lambda m, p: {"type": "tool_budget", "max_calls": m, "penalty": p}, number, number),
    st.builds(lambda m, p: {"type": "token_budget", "max_tokens": m, "penalty": p}, number, number),
)  # fmt: skip
formula = st.sampled_from(
    ["a", "a + b", "a / b", "log(a)", "sqrt(a - b)", "a ^ b", "(a - 2) ^ 0.5", "1e308 * 10 * a", "exp(800 * a)"]
)
recipe = st.one_of(
    leaf,
    st.builds(lambda a, b, f: {"type": "multi", "graders": {"a": a, "b": b}, "calculate_output": f}, leaf, leaf, formula),
    st.builds(lambda g: {"type": "steps", "grader": g}, leaf),
)  # fmt: skip


def check(grade):
    if grade.reward is None:
        assert any(value is True for value in grade.errors.values())
        assert set(grade.errors) <= set(NO_ERRORS)
    else:
        assert math.isfinite(grade.reward)
    for part in grade.sub_rewards.values():
        assert part is None or math.isfinite(part)
    json.dumps(grade.as_dict(), allow_nan=False)


@FAST
@given(recipe, st.dictionaries(st.sampled_from(["a", "b"]) | text, json_value, max_size=3), json_value)
def test_reward_is_finite_or_absent_with_a_flag(config, item, sample):
    try:
        grader = compile_grader(config)
    except GraderInvalid:
        return
    check(
        grader.grade(
            item, sample_from(sample if isinstance(sample, dict) else {"output_text": str(sample), "steps": [item]})
        )
    )


@FAST
@given(json_value)
def test_any_json_is_checked_and_never_breaks_the_check(value):
    for problem in grader_problems(value):
        assert problem.path
        assert problem.message
    normalised(value)


@FAST
@given(st.dictionaries(st.sampled_from(["type", "graders", "grader", "input", "reference", "operation", "calculate_output", "range", "labels",
                                        "passing_labels", "model", "sampling_params", "headers", "url", "source", "schema", "pattern"]), json_value),
       st.sampled_from(["multi", "string_check", "score_model", "label_model", "python", "endpoint", "numeric", "regex", "json_schema", "steps"]))  # fmt: skip
def test_wrong_values_in_right_keys_never_break_the_check(config, kind):
    grader_problems({**config, "type": kind})
    normalised({**config, "type": kind})


@FAST
@given(text, st.dictionaries(text, json_value, max_size=3))
def test_template_renders_or_refuses(source, item):
    position = 0
    try:
        Template(source)
    except TemplateError as error:
        position = error.position
    assert 0 <= position <= len(source)


@FAST
@given(st.text("ab01+-*/^()., eminaxlog", max_size=30), st.floats(-10, 10), st.floats(-10, 10))
def test_formula_computes_a_finite_number_or_says_why(source, a, b):
    said = ""
    try:
        said = "a number" if math.isfinite(Formula(source, ["a", "b"]).compute({"a": a, "b": b})) else ""
    except FormulaError as error:
        said = error.message
    assert said


@pytest.mark.parametrize("name", METRICS)
@FAST
@given(text, text)
def test_similarity_is_between_0_and_1(name, answer, reference):
    assert 0.0 <= metric(name)(answer, reference) <= 1.0


python_value = st.sampled_from(
    ["float('nan')", "float('inf')", "None", "'x'", "[]", "1/0", "10**400", "True", "0.5", "-2", "sample['nothing']", "item", "1j", "object()"]
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(python_value)
def test_python_reward_is_finite_or_absent(value):
    check(
        compile_grader({"type": "python", "source": f"def grade(sample, item): return {value}"}).grade(
            {}, sample_from("x")
        )
    )
