"""The two commands and the shape of what they print."""

import json

import pytest
from django.core.management import CommandError, call_command

from datasets.models import Dataset, DatasetVersion, Item
from tests.graders.cases import FOLDER

EXACT = {"type": "string_check", "operation": "eq", "input": "{{sample.output_text}}", "reference": "{{item.r}}"}


def run(capsys, *arguments):
    call_command(*arguments)
    return capsys.readouterr().out


def written(tmp_path, name, value):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return str(path)


def test_validate_prints_one_object(capsys, tmp_path):
    answer = json.loads(run(capsys, "grader_validate", written(tmp_path, "g.json", EXACT)))
    assert answer == {"valid": True, "problems": [], "normalised": {"name": "grader", **EXACT}}


def test_validate_names_place_and_fix(capsys, tmp_path):
    answer = json.loads(run(capsys, "grader_validate", written(tmp_path, "g.json", {**EXACT, "operation": "neq"})))
    assert answer["valid"] is False
    assert set(answer["problems"][0]) == {"path", "code", "message", "fix"}


def test_validate_tells_a_hint_from_an_error_by_its_code(capsys, tmp_path):
    swapped = {**EXACT, "operation": "like", "input": EXACT["reference"], "reference": EXACT["input"]}
    answer = json.loads(run(capsys, "grader_validate", written(tmp_path, "g.json", swapped)))
    assert answer["valid"] is True
    assert [problem["code"].split(".")[0] for problem in answer["problems"]] == ["warning"]


def test_validate_of_broken_json_names_the_place(capsys, tmp_path):
    answer = json.loads(run(capsys, "grader_validate", written(tmp_path, "g.json", '{"type": "x",\n}')))
    assert "line 2" in answer["problems"][0]["message"]


def test_validate_check_ends_with_1(capsys, tmp_path):
    with pytest.raises(SystemExit):
        run(capsys, "grader_validate", written(tmp_path, "g.json", {}), "--check")


def test_validate_against_a_file_and_a_dataset(capsys, team):
    grader = str(FOLDER / "c035_missing_key_grader.json")
    by_file = json.loads(run(capsys, "grader_validate", grader, "--dataset", str(FOLDER / "c035_missing_key.jsonl")))
    assert "2 of 2 rows" in by_file["problems"][0]["message"]
    version = DatasetVersion.objects.create(
        team=team, dataset=Dataset.objects.create(team=team, name="Questions", slug="questions"), number=1
    )
    Item.objects.create(version=version, position=0, key="a", raw='{"reference_answer": "1"}', digest="x")
    for name in ("Questions", "questions", version.public_id):
        assert json.loads(run(capsys, "grader_validate", grader, "--dataset", name))["valid"] is True
    with pytest.raises(CommandError, match="no dataset"):
        run(capsys, "grader_validate", grader, "--dataset", "Other")


def test_run_prints_one_object_a_line(capsys, tmp_path):
    pairs = [
        {"item": {"r": "a"}, "sample": {"output_text": "a"}},
        {"item": {}, "sample": {"output_text": "\ud800"}},
        {"item": {"r": "b"}, "sample": "a"},
    ]
    lines = written(tmp_path, "p.jsonl", "\n".join(map(json.dumps, pairs)) + "\n\n")
    printed = run(capsys, "grader_run", written(tmp_path, "g.json", EXACT), lines, "--json").strip().split("\n")
    good, missing, bad = map(json.loads, printed)
    assert (good["reward"], good["errors"], good["sub_rewards"]) == (1.0, {}, {})
    assert (missing["reward"], missing["errors"]) == (None, {"invalid_variable_error": True})
    assert bad["reward"] == 0.0
    assert set(good) == {"reward", "sub_rewards", "errors", "details", "milliseconds"}


def test_run_without_json_counts_ungraded_apart(capsys, tmp_path):
    lines = written(tmp_path, "p.jsonl", '{"item": {"r": "a"}, "sample": "a"}\n{"item": {}, "sample": "a"}')
    printed = run(capsys, "grader_run", written(tmp_path, "g.json", EXACT), lines)
    assert "1 graded, mean 1.0000; 1 ungraded" in printed


@pytest.mark.parametrize(
    "grader,pairs,said",
    [({}, "", "not valid"), (EXACT, "{", "Line 1"), (EXACT, "[]", "no pair"), ("{", "", "not JSON")],
)
def test_run_says_what_is_wrong(capsys, tmp_path, grader, pairs, said):
    with pytest.raises(CommandError, match=said):
        run(capsys, "grader_run", written(tmp_path, "g.json", grader), written(tmp_path, "p.jsonl", pairs))
