"""What is wrong with a recipe, where, and how to mend it."""

import json

import pytest

from graders.recipe_files import fields_of, read_recipe
from graders.validation import grader_problems, has_errors, normalised
from tests.graders.cases import load, load_lines

EXACT = {"type": "string_check", "operation": "eq", "input": "{{sample.output_text}}", "reference": "{{item.r}}"}


def codes(config, **options):
    return {(problem.path, problem.code) for problem in grader_problems(config, **options)}


@pytest.mark.parametrize(
    "config,expected",
    [
        ([], ("grader", "wrong_type")),
        ({}, ("type", "unknown_type")),
        ({"type": "string_chek"}, ("type", "unknown_type")),
        ({**EXACT, "operation": "neq"}, ("operation", "unknown_choice")),
        ({**EXACT, "operation": None}, ("operation", "missing")),
        ({**EXACT, "input": 5}, ("input", "wrong_type")),
        ({**EXACT, "input": "{{ output_text }}"}, ("input", "template_namespace")),
        ({**EXACT, "input": "{{ sample.output_text"}, ("input", "template_unclosed")),
        ({**EXACT, "refrence": "x"}, ("refrence", "unknown_key")),
        ({**EXACT, "pass_threshold": "0.5"}, ("pass_threshold", "wrong_type")),
        ({**EXACT, "name": 3}, ("name", "wrong_type")),
        (
            {"type": "text_similarity", "input": "a", "reference": "b", "evaluation_metric": "cosine"},
            ("evaluation_metric", "unsupported_metric"),
        ),
        ({"type": "multi", "graders": {}, "calculate_output": "1"}, ("graders", "empty")),
        ({"type": "multi", "graders": {"a b": EXACT}, "calculate_output": "1"}, ("graders.a b", "grader_name")),
        ({"type": "multi", "graders": {"min": EXACT}, "calculate_output": "1"}, ("graders.min", "grader_name")),
        ({"type": "multi", "graders": {"a": EXACT, "b": EXACT}, "calculate_output": "a"}, ("graders.b", "grader_unused")),
        (
            {"type": "multi", "graders": {"a": {"type": "multi", "graders": {"x": EXACT}, "calculate_output": "x"}},
             "calculate_output": "a"},
            ("graders.a.type", "nested_multi"),
        ),
        ({"type": "multi", "graders": {"a": 5}, "calculate_output": "a"}, ("graders.a", "wrong_type")),
        ({"type": "tool_budget", "max_calls": -1, "penalty": 1}, ("max_calls", "too_small")),
        ({"type": "regex", "input": "x", "pattern": "("}, ("pattern", "regex_syntax")),
        ({"type": "json_schema", "input": "x", "schema": {"type": "int"}}, ("schema", "schema_invalid")),
        ({"type": "endpoint", "url": "ftp://x"}, ("url", "url_invalid")),
        ({"type": "endpoint", "url": "https://x/y", "headers": {"A": "**********"}}, ("headers.A", "header_redacted")),
        ({"type": "score_model", "model": "m", "input": []}, ("input", "wrong_type")),
        ({"type": "score_model", "model": "m", "input": [{"role": "tool", "content": "x"}]}, ("input[0].role", "unknown_choice")),
        ({"type": "score_model", "model": "m", "input": [{"role": "user", "content": "x"}], "range": [1, 0]}, ("range", "range_order")),
        (
            {"type": "score_model", "model": "m", "input": [{"role": "user", "content": "x"}],
             "sampling_params": {"max_completion_tokens": 5}},
            ("sampling_params.max_completion_tokens", "unknown_key"),
        ),
    ],
)  # fmt: skip
def test_problem_has_its_place_and_code(config, expected):
    assert expected in codes(config)


def test_neq_suggests_ne():
    problem = grader_problems({**EXACT, "operation": "neq"})[0]
    assert problem.fix == "Write ne."


def test_multi_with_one_grader_in_place_of_a_map_is_refused():
    found = codes(load("c036_multi_not_a_map.json"))
    assert ("graders", "graders_not_a_map") in found
    assert ("graders.input", "not_a_grader") in found


def test_example_of_the_specification_is_refused_with_three_reasons():
    found = {code for _, code in codes(load("c037_multi_spec_example.json"))}
    assert {"graders_not_a_map", "formula_unbalanced", "formula_unknown_name"} <= found


def test_stray_braces_are_refused_with_their_position():
    problem = grader_problems(load("c031_stray_brace.json"))[0]
    assert (problem.path, problem.code) == ("input[0].content", "template_stray_braces")
    assert "character 26" in problem.message


def test_key_with_a_space_is_refused_with_the_form_that_works():
    problem = grader_problems(load("c033_space_in_key_grader.json"))[0]
    assert '{{ item["Tweet text"] }}' in problem.fix
    mended = {**load("c033_space_in_key_grader.json"), "reference": '{{ item["Tweet text"] }}'}
    assert not grader_problems(mended, fields=fields_of(load_lines("c033_space_in_key.jsonl")))


def test_field_that_no_row_has_is_refused_before_launch():
    fields = fields_of(load_lines("c035_missing_key.jsonl"))
    problem = grader_problems(load("c035_missing_key_grader.json"), fields=fields)[0]
    assert problem.code == "variable_missing"
    assert "2 of 2 rows" in problem.message


def test_field_that_some_rows_lack_is_a_warning():
    problems = grader_problems(EXACT, fields={"r": {"present": 3, "of": 4}})
    assert [(p.code, p.level) for p in problems] == [("variable_sparse", "warning")]


def test_swapped_sides_are_pointed_out_for_like_only():
    swapped = {**load("medmcq_stringcheck_grader.json"), "operation": "like"}
    assert ("input", "sides_swapped") in codes(swapped)
    assert not codes(load("medmcq_stringcheck_grader.json"))


@pytest.mark.parametrize("example", load("official_examples.json"), ids=lambda example: example["schema"])
def test_official_examples(example):
    config, problems = read_recipe(example["text"])
    assert bool(problems) is not example["valid_json"]
    if problems:
        assert "line" in problems[0].message
    elif example["schema"] == "GraderMulti":
        assert has_errors(grader_problems(config))
    elif example["schema"].startswith("Grader"):
        assert not has_errors(grader_problems(config)), grader_problems(config)


def test_enums_equal_the_reference():
    from graders.kinds.string_check import OPERATIONS
    from graders.similarity import METRICS

    enums = load("enums.json")
    assert set(OPERATIONS) == set(enums["string_check.operation"])
    assert {*METRICS, "cosine"} == set(enums["text_similarity.evaluation_metric"])


def test_normalised_fills_names_and_turns_a_list_into_a_map():
    config = normalised({"type": "multi", "graders": [{**EXACT, "name": "a"}], "calculate_output": "a"})
    assert config["name"] == "grader"
    assert config["graders"]["a"]["name"] == "a"


def test_normalised_keeps_what_it_does_not_know():
    assert normalised({**EXACT, "extra": 1})["extra"] == 1


@pytest.mark.parametrize("text", ['{"a": NaN}', "{", "", "\ufeff{", '{"a": 1,}', "[" * 100_000])
def test_broken_json_is_told_and_never_raises(text):
    config, problems = read_recipe(text)
    assert config is None
    assert problems[0].code == "not_json"


def test_problems_are_json():
    assert json.dumps([problem.__dict__ for problem in grader_problems(load("c037_multi_spec_example.json"))])
