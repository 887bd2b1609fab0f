"""Which tricks a grader rewards, with the example that fooled it."""

import pytest

from graders.gaming import LONG_CHARACTERS, filler, gaming_results
from graders.grading import compile_grader
from tests.graders.cases import load
from tests.graders.doubles import chat_reply, clients

ITEMS = [
    (
        f"i{n}",
        {"messages": [{"role": "user", "content": f"What is the capital of country {n}?"}], "reference_answer": answer},
    )
    for n, answer in enumerate(["Paris", "Rome", "Oslo"])
]


def states(config, *answers, items=ITEMS, **options):
    network, _ = clients(*(answers or ["{}"]))
    with compile_grader(config, network) as grader:
        return {result.trick.key: result for result in gaming_results(grader, items, **options)}


def test_two_way_contains_is_fooled_by_an_empty_answer():
    results = states(load("c055_two_way_contains.json"))
    assert (results["empty"].state, results["empty"].best, results["empty"].example) == ("bad", 1.0, "")
    assert results["both"].state == "bad"
    assert results["long"].state == "ok"


def test_exact_answer_refuses_all_but_the_bare_reference():
    config = {
        "type": "string_check",
        "operation": "eq",
        "input": "{{sample.output_text}}",
        "reference": "{{item.reference_answer}}",
    }
    results = states(config)
    assert {key for key, result in results.items() if result.state == "ok"} == {
        "empty",
        "echo",
        "refusal",
        "numbers",
        "both",
        "long",
        "injection",
    }
    assert results["bare"].state == "info"


def test_contains_is_fooled_by_two_answers():
    config = {
        "type": "string_check",
        "operation": "like",
        "input": "{{sample.output_text}}",
        "reference": "{{item.reference_answer}}",
    }
    result = states(config)["both"]
    assert result.state == "bad"
    assert result.example == "It is Paris. Or it may be Rome."


def test_judge_that_obeys_the_answer_is_marked():
    config = {
        "type": "score_model",
        "model": "judge",
        "input": [{"role": "user", "content": "{{ sample.output_text }} {{ item.reference_answer }}"}],
    }
    results = states(config, chat_reply('{"steps": [], "result": 1}'))
    assert results["injection"].state == "bad"
    assert "Ignore all earlier instructions" in results["injection"].example


def test_structured_graders_get_structured_tricks():
    config = {
        "type": "set_f1",
        "input": "{{sample.output_json.names}}",
        "reference": "{{item.names}}",
        "measure": "recall",
    }
    items = [("a", {"names": ["x"]}), ("b", {"names": ["y"]})]
    results = states(config, items=items)
    assert results["both"].best == 1.0
    assert results["empty"].best == 0.0


def test_ungraded_tricks_are_no_refusals():
    config = {"type": "string_check", "operation": "eq", "input": "{{item.nothing}}", "reference": "x"}
    assert {result.state for result in states(config).values()} == {"ungraded"}


def test_pass_mark_decides_what_is_rewarded():
    config = {
        "type": "text_similarity",
        "evaluation_metric": "rouge_1",
        "input": "{{sample.output_text}}",
        "reference": "{{item.reference_answer}}",
    }
    assert states(config, pass_mark=0.2)["both"].state == "bad"
    assert states(config, pass_mark=0.9)["both"].state == "ok"


@pytest.mark.parametrize("text", ["", "a", "one two three " * 50])
def test_filler_is_long_whatever_it_is_made_of(text):
    assert len(filler(text)) == LONG_CHARACTERS


def test_every_number_at_once_finds_a_grader_that_looks_for_one_anywhere():
    config = {"type": "string_check", "operation": "like", "input": "{{sample.output_text}}",
              "reference": "{{item.answer}}"}  # fmt: skip
    items = [(str(n), {"question": f"What are {n} crates at 7 each?", "answer": str(7 * n)}) for n in (31, 40, 52)]
    with compile_grader(config) as grader:
        found = {result.trick.key: result for result in gaming_results(grader, items)}
    assert found["numbers"].passes
    assert found["bare"].fooled == 3
    assert not found["bare"].passes  # right for a short answer
    assert not found["refusal"].passes
