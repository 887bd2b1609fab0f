"""What makes a row a task."""

import pytest

from datasets.row_checks import RowNotes, row_fault, schema_fault
from datasets.row_mapping import apply_mapping, parse_mapping, usual_mapping
from datasets.splitting import assign_splits

USER = {"role": "user", "content": "q"}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"messages": [USER]}, ""),
        ({"messages": [{"role": "developer", "content": "d"}, USER], "tools": []}, ""),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]}, ""),
        ({"messages": [USER, {"role": "assistant", "content": None, "tool_calls": []}, USER]}, ""),
        ({}, "messages_missing"),
        ({"messages": None}, "messages_missing"),
        ({"messages": "q"}, "messages_malformed"),
        ({"messages": []}, "messages_malformed"),
        ({"messages": ["q"]}, "messages_malformed"),
        ({"messages": [{"role": "user"}]}, "messages_malformed"),
        ({"messages": [{"content": "q"}]}, "messages_malformed"),
        ({"messages": [{"role": "human", "content": "q"}]}, "role_unknown"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "content_unsupported"),
        ({"messages": [USER, {"role": "assistant", "content": "a"}]}, "last_message_assistant"),
        ({"messages": [USER, {"role": "tool", "content": "a"}]}, "last_message_not_user"),
        ({"messages": [{"role": "system", "content": "s"}]}, "last_message_not_user"),
        ({"messages": [USER], "tools": {"a": 1}}, "tools_malformed"),
        ({"messages": [USER], "tools": [{"function": {"name": "no spaces"}}]}, "tools_malformed"),
    ],
)
def test_row_fault(value, code):
    assert row_fault(value) == code


@pytest.mark.parametrize(
    ("parameters", "is_sound"),
    [
        (None, True), ({}, True), ({"type": "object", "properties": {"a": {"type": "string"}}}, True),
        ({"a": {"type": "int"}}, False), ({"type": "object", "properties": {"a": {"type": "int"}}}, False), ("x", False),
    ],
)  # fmt: skip
def test_schema_fault(parameters, is_sound):
    function = {"name": "f"} if parameters is None else {"name": "f", "parameters": parameters}
    assert (schema_fault({"function": function}) == "") == is_sound


@pytest.mark.parametrize("reference", ["", "  ", None])
def test_empty_reference_is_noted(reference):
    assert RowNotes()({"messages": [USER], "reference_answer": reference}) == ["empty_reference"]


def test_zero_and_false_are_references():
    assert RowNotes()({"messages": [USER], "reference_answer": 0}) == []
    assert RowNotes()({"messages": [USER], "reference_answer": False}) == []


def test_mapping_is_parsed_and_applied():
    mapping = parse_mapping("prompt=q, reference=a,developer=d")
    made = apply_mapping({"q": "Q?", "a": "A", "d": "D", "x": 1}, mapping)
    assert made == {
        "messages": [{"role": "developer", "content": "D"}, {"role": "user", "content": "Q?"}],
        "reference_answer": "A", "x": 1,
    }  # fmt: skip
    assert apply_mapping({"q": " "}, mapping) is None


@pytest.mark.parametrize("text", ["reference=a", "prompt", "prompt=", "film=a,prompt=b"])
def test_bad_mapping_is_refused(text):
    with pytest.raises(ValueError):
        parse_mapping(text)


def test_usual_names_of_tables_are_known():
    assert usual_mapping(["input", "target", "x"]) == {"prompt": "input", "reference": "target"}
    assert usual_mapping(["messages", "prompt"]) == {}
    assert usual_mapping(["step", "loss"]) == {}


def test_splits_keep_groups_whole_and_do_not_depend_on_the_order():
    items = [(number, f"g{number % 30}") for number in range(300)]
    shares = {"train": 0.8, "validation": 0.1, "test": 0.1}
    sides = assign_splits(items, shares, seed=3)
    assert {side: len(ids) for side, ids in sides.items()} == {"train": 240, "validation": 30, "test": 30}
    mixed = assign_splits(reversed(items), shares, seed=3)
    assert {side: set(ids) for side, ids in sides.items()} == {side: set(ids) for side, ids in mixed.items()}
    assert assign_splits([], shares, 0) == {"train": [], "validation": [], "test": []}
