"""The example world: deterministic, without overlap, and right when worked out anew."""

import json
from collections import Counter
from pathlib import Path

import pytest

from graders.grading import compile_grader
from graders.types import Sample
from rftstudio.demo import world

PASS_MARK = 0.75
DATA = Path(world.__file__).parent / "data" / "duty_desk.jsonl"


def shipped():
    return [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


def worked_out(row):
    """The answer by a second route: run the reference calls against the schedule."""
    result = ""
    for call in row["reference_calls"]:
        arguments = call["arguments"]
        if call["name"] == "lookup":
            result = row["schedule"][arguments["good"]]
        else:
            result = str(arguments["a"] * arguments["b"])
    return result


def test_data_file_is_what_the_world_makes():
    assert DATA.read_text(encoding="utf-8") == world.rows_text(world.items_make())


def test_items_make_with_another_seed_gives_other_items():
    assert world.items_make(seed=1, splits={"train": 5}) != world.items_make(seed=2, splits={"train": 5})


def test_splits_have_their_sizes_and_balanced_kinds():
    rows = shipped()
    assert Counter(row["split"] for row in rows) == world.SPLITS
    for split, count in world.SPLITS.items():
        kinds = Counter(row["kind"] for row in rows if row["split"] == split)
        assert max(kinds.values()) - min(kinds.values()) <= 1
        assert sum(kinds.values()) == count


def test_no_question_and_no_id_appears_twice():
    rows = shipped()
    assert len({row["messages"][0]["content"] for row in rows}) == len(rows)
    assert len({row["id"] for row in rows}) == len(rows)


def test_references_are_right_when_worked_out_anew():
    for row in shipped():
        assert row["reference_answer"] == worked_out(row)


def test_rows_are_wire_valid():
    for row in shipped():
        assert [message["role"] for message in row["messages"]] == ["user"]
        assert set(row["messages"][0]) == {"role", "content"}


def test_question_alone_never_holds_the_answer():
    for row in shipped():
        words = row["messages"][0]["content"].replace("?", " ").replace(".", " ").split()
        assert row["reference_answer"] not in words or row["kind"] != "duty"
        assert not any(word.isdigit() for word in words) or row["kind"] == "duty"


def test_tools_keep_their_order():
    assert [tool["name"] for tool in world.TOOLS] == ["lookup", "calc"]


def test_grader_passes_right_answers_only():
    recipe = json.loads((DATA.parents[1] / "grader.json").read_text())
    compiled = compile_grader(recipe)
    for row in shipped()[:9]:
        route = [(call["name"], json.dumps(call["arguments"])) for call in row["reference_calls"]]
        right, wrong = row["reference_answer"], "7"
        assert compiled.grade(row, sample(right, route)).reward == 1.0
        assert compiled.grade(row, sample(right, route * 3)).reward >= PASS_MARK
        assert compiled.grade(row, sample(right, route * 3)).reward < 1.0
        assert compiled.grade(row, sample(wrong, route)).reward == pytest.approx(0.3)
        assert 0 <= compiled.grade(row, sample(wrong, route[:1])).reward <= 0.3
        assert compiled.grade(row, sample(wrong, [])).reward == 0.0


def sample(text, calls):
    tools = [{"id": "1", "type": "function", "function": {"name": name, "arguments": text}} for name, text in calls]
    return Sample(output_text=text, output_tools=tools)
