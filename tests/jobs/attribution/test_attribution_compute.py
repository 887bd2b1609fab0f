"""`manage.py attribution_compute`."""

import json
import math

import pytest
from django.core.management import CommandError, call_command


def write(tmp_path, *lines):
    path = tmp_path / "groups.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return str(path)


def row(rollout, reward, *names):
    steps = [{"kind": "tool", "name": name, "arguments": "{}", "result": name, "tokens": 3} for name in names]
    return {"group": "g", "rollout": rollout, "reward": reward, "steps": [*steps, {"kind": "answer", "result": "x"}]}


def run(capsys, *args):
    call_command("attribution_compute", *args, "--json")
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("method", ["uniform", "divergence", "anchor_state", "prefix_value"])
def test_attribution_compute_prints_one_row_a_rollout_and_sums(tmp_path, capsys, method):
    rows = run(
        capsys, write(tmp_path, row("a", 1, "x", "y"), row("b", 0.25, "x"), "", row("c", None)), "--method", method
    )
    assert [r["rollout"] for r in rows] == ["a", "b", "c"]
    assert rows[0]["baseline"] == 0.25
    assert abs(math.fsum(rows[0]["credits"]) - 0.75) <= 1e-9
    assert rows[2]["credits"] == []
    assert rows[2]["reason"] == "ungraded"


def test_attribution_compute_keeps_groups_with_the_same_rollout_ids_apart(tmp_path, capsys):
    lines = [{**row("0", 1, "x"), "group": group} for group in "gh"] + [{**row("1", 0), "group": g} for g in "gh"]
    assert [(r["group"], r["rollout"]) for r in run(capsys, write(tmp_path, *lines))] == [
        ("g", "0"), ("h", "0"), ("g", "1"), ("h", "1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line, words",
    [
        ("{", "Line 2"),
        ('{"group": "g", "reward": NaN, "steps": []}', "NaN is not a JSON number"),
        ('{"reward": 1, "steps": []}', "'group' is missing"),
        ('{"group": "g", "reward": "1", "steps": []}', "reward is '1'"),
    ],
)
def test_attribution_compute_names_the_bad_line(tmp_path, line, words):
    with pytest.raises(CommandError, match=words):
        call_command("attribution_compute", write(tmp_path, row("a", 1), line))


def test_attribution_compute_without_the_file_says_so(tmp_path):
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("attribution_compute", str(tmp_path / "none.jsonl"))
