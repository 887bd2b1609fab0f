"""The built-in tools: plain tables of input and output."""

import json

import pytest

from jobs.agents.tools.arguments import ArgumentError
from jobs.agents.tools.builtins import calculator, corpus, table
from jobs.agents.tools.spec import ToolSpec


@pytest.mark.parametrize(
    "expression, value",
    [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("0.1 + 0.2", "0.3"),
        ("10 / 4", "2.5"),
        ("1 / 3", "0.3333333333333333333333333333"),
        ("-2 ^ 2", "-4"),
        ("2 ^ -2", "0.25"),
        ("2 ^ 3 ^ 2", "512"),
        ("250 * 8%", "20"),
        ("round(2.345, 2)", "2.35"),
        ("round(-2.5)", "-3"),
        ("min(3, 1, 2) + max(4, 5) - abs(-6)", "0"),
        ("12345678901234567890 * 10", "123456789012345678900"),
        ("3 × 4 ÷ 2 − 1", "5"),
        ("1e3 + .5", "1000.5"),
        ("100", "100"),
        ("--3", "3"),
    ],
)
def test_calculator_is_exact(expression, value):
    assert calculator.calculate(expression) == value


@pytest.mark.parametrize(
    "expression, words",
    [
        ("", "empty"),
        ("1 / 0", "division by zero"),
        ("0 ^ -1", "division by zero"),
        ("2 +", "ends too early"),
        ("(1", "closing parenthesis"),
        ("1 2", "not expected"),
        ("__import__('os')", "not arithmetic"),
        ("sin(1)", "not known"),
        ("9 ^ 9 ^ 9 ^ 9", "too many digits"),
        ("2 ^ 0.5", "whole exponents"),
        ("(" * 200 + "1", "nested too deep"),
        ("1" * 2000, "longer than"),
        ("1 + $", "character 5"),
    ],
)
def test_calculator_says_what_is_wrong(expression, words):
    with pytest.raises(ArgumentError, match=words):
        calculator.calculate(expression)


@pytest.mark.parametrize(
    "operation, a, b, value",
    [
        ("product", 12, "2.5", "30"),
        ("product", "1,200", "5 %", "60"),
        ("sum", "0.1", "0.2", "0.3"),
        ("difference", 1, 3, "-2"),
        ("quotient", 1, 8, "0.125"),
    ],
)
def test_calculator_on_two_numbers(operation, a, b, value):
    answer = calculator.ready(ToolSpec("calc", config={"builtin": "calculator", "operation": operation}), {})
    assert answer({"a": a, "b": b}) == value


@pytest.mark.parametrize("bad", ["x", "", "NaN", "Infinity", "1e99999", "1,5", "1,00", True, None, [1]])
def test_calculator_refuses_what_is_no_number(bad):
    answer = calculator.ready(ToolSpec("calc", config={"builtin": "calculator", "operation": "product"}), {})
    with pytest.raises(ArgumentError, match="must be a number"):
        answer({"a": bad, "b": 1})


def test_table_of_an_item_is_looked_up_forgivingly():
    spec = ToolSpec("lookup", config={"builtin": "table", "item_field": "schedule", "key": "good"})
    answer = table.ready(spec, {"schedule": {"Café crème": "7", "tea": {"rate": 3}}})
    assert answer({"good": "  CAFÉ   crème"}) == "7"
    assert json.loads(answer({"good": "tea"})) == {"rate": 3}
    assert answer({"good": "rum"}) == "no entry for rum"


def test_table_of_rows_answers_with_a_column_or_the_row():
    rows = [{"code": "A1", "rate": 5}, {"code": "A1", "rate": 6}, {"rate": 7}, "stray"]
    spec = ToolSpec("rate", config={"builtin": "table", "table": rows, "key": "code", "value_field": "rate"})
    assert table.ready(spec, {})({"code": "a1"}) == "5"
    whole = ToolSpec("rate", config={"builtin": "table", "table": rows, "key": "code"})
    assert json.loads(table.ready(whole, {})({"code": "A1"})) == {"code": "A1", "rate": 5}


def test_table_absent_from_the_item_has_no_entries():
    spec = ToolSpec("lookup", config={"builtin": "table", "item_field": "a.b", "missing": "unknown"})
    assert table.ready(spec, {"a": {"b": None}})({"key": "x"}) == "unknown"


DOCUMENTS = [
    {"id": "C-1", "title": "Input tax", "text": "A taxable person may deduct input tax on purchases."},
    {"id": "C-2", "title": "Place of supply", "text": "The place of supply of services follows the customer."},
    {"id": "C-3", "title": "輸入税", "text": "輸入品に対する消費税。"},
]


def test_corpus_finds_the_best_match_first():
    answer = corpus.ready(ToolSpec("search", config={"builtin": "corpus", "documents": DOCUMENTS}), {})
    assert answer({"query": "deduct INPUT tax"}).startswith("[C-1] Input tax")
    assert "[C-3]" in answer({"query": "消費"})
    assert answer({"query": "zebra"}) == "No document matches."
    with pytest.raises(ArgumentError, match="no words"):
        answer({"query": "?!"})


def test_corpus_reads_one_document_by_id():
    spec = ToolSpec("read", config={"builtin": "corpus", "documents": DOCUMENTS, "mode": "read"})
    answer = corpus.ready(spec, {})
    assert answer({"id": "c-2"}) == "Place of supply\nThe place of supply of services follows the customer."
    with pytest.raises(ArgumentError, match="no document"):
        answer({"id": "C-9"})


def test_corpus_excerpt_is_cut_around_the_match():
    text = "word " * 500 + "needle " + "word " * 500
    spec = ToolSpec("search", config={"builtin": "corpus", "documents": [{"text": text}], "excerpt": 100})
    cut = corpus.ready(spec, {})({"query": "needle"})
    assert "needle" in cut
    assert len(cut) < 130
