"""Values computed apart from the product, with the libraries and with CPython."""

import json

import pytest

from graders.failures import Ungraded
from graders.formula import Formula, FormulaError
from graders.grading import compile_grader
from graders.templating import Template, TemplateError
from graders.types import Sample
from tests.graders.cases import load

PAIRS = load("expected_string_and_similarity.json")["pairs"]
#: The library function each metric stands for.
CHOSEN = {
    "fuzzy_match": "rapidfuzz.fuzz.ratio",
    "bleu": "sacrebleu.sentence_bleu",
    "gleu": "nltk.sentence_gleu(split)",
    "meteor": "nltk.meteor_score(split, Porter stem, no WordNet)",
    **{f"rouge_{n}": "rouge_score.fmeasure(stem=False)" for n in [1, 2, 3, 4, 5, "l"]},
}


def pair_grade(pair, **config):
    grader = compile_grader({"input": "{{sample.output_text}}", "reference": "{{item.r}}", **config})
    return grader.grade({"r": pair["reference"]}, Sample(output_text=pair["output_text"]))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["id"])
def test_string_check_equals_expected(pair):
    for operation in ("eq", "ne", "like", "ilike"):
        expected = pair["string_check"][operation]
        assert pair_grade(pair, type="string_check", operation=operation).reward == expected


@pytest.mark.parametrize("metric", CHOSEN)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["id"])
def test_text_similarity_equals_the_library(pair, metric):
    expected = pair["text_similarity"][metric][CHOSEN[metric]]
    got = pair_grade(pair, type="text_similarity", evaluation_metric=metric)
    assert got.reward == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("case", load("expected_formulas.json"), ids=lambda case: case["formula"][:40] or "empty")
def test_formula_equals_expected(case):
    if "expected" in case:
        assert Formula(case["formula"], case["vars"]).compute(case["vars"]) == pytest.approx(case["expected"])
    else:
        with pytest.raises(FormulaError):
            Formula(case["formula"], case["vars"]).compute(case["vars"])


@pytest.mark.parametrize("case", load("expected_templates.json"), ids=lambda case: case["template"][:40])
def test_template_equals_expected(case):
    sample = Sample(**case["sample"])
    if isinstance(case["expected"], str):
        assert Template(case["template"]).render(case["item"], sample) == case["expected"]
    elif "executed" in case["expected"]["error"]:  # literal text
        assert Template(case["template"]).render(case["item"], sample) == case["template"]
    elif "sample_parse_error" in case["expected"]["error"]:
        with pytest.raises(Ungraded) as failure:
            Template(case["template"]).render(case["item"], sample)
        assert failure.value.flag == "sample_parse_error"
    else:
        with pytest.raises(TemplateError):
            Template(case["template"])


SOURCES = {
    "toolcall_python_grader": load("toolcall_python_grader.json"),
    "countdown_python_grader": load("countdown_python_grader.json"),
    "level1_precision": load("level1_f1_multi.json")["graders"]["precision"],
    "level1_recall": load("level1_f1_multi.json")["graders"]["recall"],
}
PYTHON_CASES = [
    pytest.param(SOURCES[name.split(" ")[0]], case, id=f"{name.split(' ')[0]}-{number}")
    for name, cases in load("expected_python_graders.json")["graders"].items()
    if name.split(" ")[0] in SOURCES
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize("config,case", PYTHON_CASES)
def test_python_grader_equals_cpython(config, case):
    grader = compile_grader(config)
    grade = grader.grade(case["item"], Sample(**case["sample"]))
    if "value" in case["expected"]:
        assert grade.reward == pytest.approx(case["expected"]["value"], abs=1e-6)
        assert not grade.errors
    else:
        assert grade.reward is None
        assert grade.errors["python_grader_runtime_error"] is True
        assert case["expected"]["error"] in grade.errors["python_grader_runtime_error_details"]


MULTI_CASES = [
    pytest.param(name.split("/")[-1], case, id=f"{name.split('/')[-1]}-{number}")
    for name, cases in load("expected_multi_graders.json").items()
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize("name,case", MULTI_CASES)
def test_multi_grader_equals_expected(name, case):
    expected = case["expected"]
    grade = compile_grader(load(f"{name}.json")).grade(case["item"], Sample(**case["sample"]))
    if "error" in expected:
        assert grade.reward is None
        assert grade.errors[expected["error"]] is True
        return
    reward = expected.get("reward", expected.get("reward(fuzz.ratio)"))
    assert grade.reward == pytest.approx(reward, abs=1e-5)
    for part, value in expected["sub_rewards"].items():
        assert grade.sub_rewards[part.split("(")[0]] == pytest.approx(value, abs=1e-5)
    if "passes(>=0.65)" in expected:
        assert (grade.reward >= 0.65) is expected["passes(>=0.65)"]


LONG = {"a": 0.5, "big": 1e300}


@pytest.mark.parametrize(
    "formula,value",
    [("a" + " + a" * 2000, 1000.5), ("1 - 2 * 3 / 4 + 5", 4.5), ("a - a - a", -0.5), ("1 / a / a", 4.0)],
    ids=["long sum", "mixed", "minus", "divided twice"],
)
def test_formula_goes_from_left_to_right_at_any_length(formula, value):
    assert Formula(formula, LONG).compute(LONG) == pytest.approx(value)


@pytest.mark.parametrize("formula", ["1 / (big * big)", "min(1, big * big)", "exp(-(big * big))"])
def test_infinity_on_the_way_is_no_silent_zero(formula):
    with pytest.raises(FormulaError, match="too large"):
        Formula(formula, LONG).compute(LONG)


@pytest.mark.parametrize("key", ["1st", "中文", "with-dash", "Tweet text", "a.b", "it's", 'say "x"'])
def test_any_key_can_be_named(key):
    quoted = "{{ item[" + json.dumps(key) + "] }}"
    assert Template(quoted).render({key: "found"}, Sample()) == "found"
    assert Template("{{" + str(Template(quoted).variables[0]) + "}}").render({key: "found"}, Sample()) == "found"


def test_single_quotes_do_as_well():
    assert Template("{{ item['Tweet text'] }}").render({"Tweet text": "hi"}, Sample()) == "hi"
