"""Imported rollouts in the tables, by service and by command."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from jobs.attribution.services import attribution_compute
from jobs.rollouts import exports
from jobs.rollouts.imports.service import rollouts_import
from jobs.rollouts.models import LargeResult, Rollout, RolloutBatch
from jobs.rollouts.reading import result_text, rollout_reading
from rftstudio.core.errors import NotAllowed, UserError
from tests.factories.rollouts import RolloutBatchFactory, customs_group

TRACES = Path(__file__).parents[3] / "data" / "cases" / "traces"
pytestmark = pytest.mark.django_db


def chat(*texts, **extra):
    messages = [{"role": "user", "content": "q"}, *({"role": "assistant", "content": text} for text in texts)]
    return json.dumps({"messages": messages, **extra}).encode()


def test_rollouts_import_stores_steps_rewards_and_flags(member):
    content = (TRACES / "azure-rft" / "zava_evalrun_step0_traces_14.json").read_bytes()
    outcome = rollouts_import(actor=member, content=content)
    rows = Rollout.objects.filter(batch=outcome.batch)
    assert outcome.batch.kind == "import"
    assert rows.count() == 14
    assert sum(row.steps.count() for row in rows) == outcome.report["steps"]
    assert rows.filter(reward=0.625).get().sub_rewards == {"Policy Outcome Consistency Grader": 0.625}
    assert any(flag["code"] == "empty_call_id" for row in rows for flag in row.flags)
    assert attribution_compute(rollouts=outcome.batch, methods=["divergence"])["divergence"] > 0


def test_rollouts_import_of_the_same_file_again_is_the_same_batch(member):
    first = rollouts_import(actor=member, content=chat("a"))
    second = rollouts_import(actor=member, content=chat("a"))
    assert (first.is_new, second.is_new, first.batch) == (True, False, second.batch)
    assert Rollout.objects.count() == 1


def test_rollouts_import_of_one_file_in_two_teams_keeps_them_apart(member, stranger):
    rollouts_import(actor=member, content=chat("a"))
    rollouts_import(actor=stranger, content=chat("a"))
    assert RolloutBatch.objects.count() == 2


def test_rollouts_import_by_a_viewer_is_refused(viewer):
    with pytest.raises(NotAllowed):
        rollouts_import(actor=viewer, content=chat("a"))


def test_rollouts_import_of_no_trace_leaves_nothing(member):
    with pytest.raises(UserError, match="No known trace format"):
        rollouts_import(actor=member, content=b'{"a": 1}', filename="x.json")
    assert not RolloutBatch.objects.exists()


def test_rollouts_import_keeps_a_large_result_apart(member):
    big = "A" * 3_000_000
    call = {"id": "c", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": big},
        {"role": "assistant", "content": "done"},
    ]
    outcome = rollouts_import(actor=member, content=json.dumps({"messages": messages, "reward": 1}).encode())
    rollout = outcome.batch.rollouts.get()
    kept = rollout.steps.get(index=0).tool_calls[0]
    assert (len(kept["result"]), kept["result_bytes"]) == (2000, 3_000_000)
    assert LargeResult.objects.get().text == big
    assert result_text(team=member.team, public_id=rollout.public_id, step=0, call=0) == big


def test_rollouts_import_survives_hostile_text(member):
    outcome = rollouts_import(actor=member, content=chat("\ud800 \x00 <script>", reward="NaN"))
    rollout = outcome.batch.rollouts.get()
    assert rollout.answer == "\ufffd \ufffd <script>"
    assert rollout.reward is None


def test_rollouts_import_reads_our_own_export_back(member, team, stranger):
    batch = RolloutBatchFactory(team=team)
    customs_group(batch)
    rows = Rollout.objects.filter(batch=batch)
    content = b"".join(exports.write_jsonl(rows))
    again = rollouts_import(actor=stranger, content=content).batch
    old = {r.sample_index: exports.rollout_dict(r) for r in rows}
    for rollout in again.rollouts.all():
        new = exports.rollout_dict(rollout)
        before = old[7 - rollout.sample_index]  # exports run from the newest
        for key in ("item_key", "reward", "passed", "sub_rewards", "stop_reason", "status", "answer", "error"):
            assert new[key] == before[key], key
        for one, other in zip(new["steps"], before["steps"], strict=True):
            assert one == other


def test_rollouts_import_reads_atif_and_the_export_back(member, team):
    batch = RolloutBatchFactory(team=team)
    customs_group(batch)
    content = b"".join(exports.write_atif(Rollout.objects.filter(batch=batch)))
    again = rollouts_import(actor=member, content=content)
    assert again.report["format"] == "atif"
    assert sorted(r.n_steps for r in again.batch.rollouts.all()) == sorted(r.n_steps for r in batch.rollouts.all())


def test_rollouts_import_command_prints_one_json_report(team, capsys):
    call_command("rollouts_import", TRACES / "otlp" / "opentelemetry_proto_trace.json", "--team", team.slug, "--json")
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"format", "rollouts", "steps", "tool_calls", "flags"}
    assert (report["format"], report["rollouts"], report["flags"][0]["code"]) == ("otlp_json", 1, "orphan_span")


def test_rollouts_import_command_names_an_unknown_team(tmp_path, db):
    with pytest.raises(CommandError, match="no team nobody"):
        call_command("rollouts_import", tmp_path / "x", "--team", "nobody")


def test_imported_prompt_is_readable(member):
    rollout = rollouts_import(actor=member, content=chat("a")).batch.rollouts.get()
    assert rollout_reading(team=member.team, public_id=rollout.public_id).rollout.extra["prompt"][0]["content"] == "q"
