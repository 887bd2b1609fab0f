"""Searches kept under a name, masking rules, and files through the browser's door."""

import io
import json

import pyarrow.parquet
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from jobs.rollouts import exports
from jobs.rollouts.imports.detect import read_rollouts
from jobs.rollouts.imports.service import rollouts_import
from jobs.rollouts.keeping import mask_rule_add, saved_view_save
from jobs.rollouts.models import LargeResult, MaskRule, Rollout, SavedView
from rftstudio.core.errors import NotAllowed, UserError
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory, customs_group

pytestmark = pytest.mark.django_db


def url(name, team, *args):
    return reverse(f"rollouts:{name}", args=[team.slug, *args])


def test_kept_view_is_a_tab_with_the_same_rows_and_can_go(client_of, expert, team):
    customs_group(RolloutBatchFactory(team=team))
    client = client_of(expert)
    answer = client.post(
        url("view-save", team), {"name": " Failed  ones ", "query": "status=failed&by=rollout&after=9"}
    )
    assert answer.url == f"{url('rollout-list', team)}?status=failed&by=rollout"
    text = client.get(answer.url).content.decode()
    assert ">Failed ones</a>" in text
    assert "1 rollout<" in text
    row = SavedView.objects.get(team=team)
    assert f'action="{url("view-remove", team, row.pk)}"' in text
    client.post(url("view-remove", team, row.pk))
    assert not SavedView.objects.exists()


def test_view_without_a_name_is_refused_and_the_same_name_replaces(expert):
    with pytest.raises(UserError, match="no name"):
        saved_view_save(actor=expert, name=" ", query="passed=1")
    saved_view_save(actor=expert, name="Mine", query="passed=1")
    saved_view_save(actor=expert, name="Mine", query="passed=0")
    assert SavedView.objects.get().query == "passed=0"


def test_mask_rules_are_the_owners_and_their_words_are_shown_to_no_one_else(client_of, owner, viewer, member, team):
    client_of(owner).post(url("mask-list", team), {"kind": "words", "words": "Project Blue"})
    assert "Project Blue" in client_of(owner).get(url("mask-list", team)).content.decode()
    assert "Project Blue" not in client_of(viewer).get(url("mask-list", team)).content.decode()
    assert client_of(owner).post(url("mask-list", team), {"kind": "words", "words": "a*"}).status_code == 422
    with pytest.raises(NotAllowed):
        mask_rule_add(actor=member, kind="email")
    client_of(owner).post(url("mask-remove", team, MaskRule.objects.get().pk))
    assert not MaskRule.objects.exists()


def test_import_page_tells_what_was_found(client_of, member, team):
    line = json.dumps({"messages": [{"role": "assistant", "content": "yes"}], "reward": 1}).encode()
    client = client_of(member)
    form = {"format": "auto", "pass_threshold": "0.5"}
    answer = client.post(url("rollout-import", team), {**form, "file": SimpleUploadedFile("a.jsonl", line)})
    assert "1 rollout" in answer.content.decode()
    bad = client.post(url("rollout-import", team), {**form, "file": SimpleUploadedFile("a.jsonl", b'{"a": 1}')})
    assert (bad.status_code, Rollout.objects.count()) == (422, 1)
    assert "No known trace format" in bad.content.decode()


def test_parquet_holds_every_rollout_with_types_and_steps(team):
    made = customs_group(RolloutBatchFactory(team=team))
    table = pyarrow.parquet.read_table(io.BytesIO(b"".join(exports.write_parquet(Rollout.objects.filter(team=team)))))
    assert table.num_rows == len(made)
    rows = {row["id"]: row for row in table.to_pylist()}
    assert rows[made[2].public_id]["reward"] == 0.9
    assert rows[made[7].public_id]["reward"] is None
    assert json.loads(rows[made[0].public_id]["steps"])[0]["tool_calls"][0]["name"] == "lookup"


def test_export_has_large_results_whole_and_reads_back(member):
    call = {"id": "c", "function": {"name": "read", "arguments": "{}"}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "A" * 70_000},
                {"role": "assistant", "content": "done"}]  # fmt: skip
    rollouts_import(actor=member, content=json.dumps({"messages": messages, "reward": 1}).encode())
    assert LargeResult.objects.count() == 1
    text = b"".join(exports.write_jsonl(Rollout.objects.all()))
    assert len(read_rollouts(text).rollouts[0].steps[0].tool_calls[0].result) == 70_000
    assert b"A" * 70_000 in b"".join(exports.write_atif(Rollout.objects.all()))


def test_list_of_a_team_without_rollouts_offers_the_import(client_of, member, team, viewer):
    assert url("rollout-import", team) in client_of(member).get(url("rollout-list", team)).content.decode()
    RolloutFactory(batch=RolloutBatchFactory(team=team), team=team)
    assert url("rollout-import", team) not in client_of(viewer).get(url("rollout-list", team)).content.decode()
