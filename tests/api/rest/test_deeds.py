"""Deeds that the pages have, by /api: supervised launches, checkpoints, corpora, searches, masks, items of rollouts."""

import io
import tarfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from datasets.models import Item
from datasets.services import source_file_upload
from jobs.agents.models import Corpus
from jobs.attribution.models import RolloutCredit
from jobs.models import Checkpoint, Job, TrainStep
from jobs.rollouts.models import MaskRule, Rollout, SavedView
from rftstudio.teams.models import AuditEvent, Role
from tests.api.rest.conftest import Door, key_of
from tests.jobs.conftest import ready_baseline  # noqa: F401
from tests.jobs.test_checkpoints import job, make  # noqa: F401

pytestmark = pytest.mark.django_db


def test_supervised_job_is_estimated_and_launched(rest, ready_baseline):  # noqa: F811
    wanted = {
        "baseline": ready_baseline.public_id, "method": "supervised", "plan": {"n_epochs": 2},
        "demonstrations": {"from": "references", "field": "answer"},
    }  # fmt: skip
    guess = rest.post("/api/job-estimates", wanted).json()
    assert guess["derived"]["demonstrations"] == guess["plan"]["max_steps"] * guess["plan"]["batch_size"]
    made = rest.post("/api/jobs", wanted)
    assert made.status_code == 201, made.content
    assert made.json()["method"] == "supervised"
    assert Job.objects.get().demonstrations == made.json()["demonstrations"] == wanted["demonstrations"]
    refused = rest.post("/api/jobs", {**wanted, "demonstrations": {"from": "dreams"}})
    assert (refused.status_code, refused.json()["where"]) == (400, "demonstrations")


def test_draft_is_made_filled_anew_ended_by_a_launch_and_deleted(rest, theirs, ready_baseline):  # noqa: F811
    wanted = {"baseline": ready_baseline.public_id, "values": {"name": "Later", "n_epochs": "two"}}
    made = rest.post("/api/drafts", wanted).json()
    at = f"/api/drafts/{made['id']}"
    assert (made["name"], made["values"]) == ("Later", wanted["values"])
    assert rest.put(at, {**wanted, "values": {"n_epochs": "2"}}).json()["id"] == made["id"]
    assert [row["values"] for row in rest.get("/api/drafts").json()["data"]] == [{"n_epochs": "2"}]
    assert theirs.get(at).status_code == 404
    launch = {"baseline": ready_baseline.public_id, "plan": {"n_epochs": 2}, "draft": made["id"]}
    assert theirs.post("/api/jobs", launch).status_code == 404
    assert rest.post("/api/jobs", launch).status_code == 201
    assert rest.get(at).status_code == 404
    assert rest.post("/api/jobs", launch).status_code == 404, "it launches once"
    assert Job.objects.count() == 1
    other = rest.post("/api/drafts", wanted).json()["id"]
    assert rest.delete(f"/api/drafts/{other}").status_code == 204
    assert rest.get("/api/drafts").json()["data"] == []
    assert rest.post("/api/drafts", {**wanted, "values": {"name": ["x"]}}).status_code == 400


def test_alarm_is_muted_and_taken_back(rest, theirs, job):  # noqa: F811
    for n in range(1, 7):
        TrainStep.objects.create(job=job, number=n, mean_reward=0.9, validation_reward=0.5 if n == 6 else None)
    at = f"/api/jobs/{job.public_id}/alarms/gap"
    assert theirs.put(at, {"is_muted": True}).status_code == 404
    muted = rest.put(at, {"is_muted": True}).json()["alarms"]
    assert [(alarm["key"], bool(alarm["muted_by"])) for alarm in muted] == [("gap", True)]
    assert rest.get(f"/api/jobs/{job.public_id}/figures").json()["alarms"] == muted
    assert rest.put(at, {"is_muted": False}).json()["alarms"][0]["muted_by"] == ""
    assert rest.put(at.replace("gap", "tools"), {"is_muted": True}).status_code == 409
    assert rest.put(at, {}).status_code == 400


def test_checkpoint_is_kept_for_days_downloaded_promoted_and_deleted(rest, theirs, job, make):  # noqa: F811
    best, old = make(step=4, reward=0.9), make(step=2, reward=0.1)
    at = f"/api/checkpoints/{best.public_id}"
    assert rest.put(f"{at}/expiry", {"days": 30}).json()["expires_at"] is not None
    assert rest.put(f"{at}/expiry", {"days": None}).json()["expires_at"] is None
    assert rest.put(f"{at}/expiry", {"days": 0}).status_code == 400
    archive = b"".join(rest.post(f"{at}/archive").streaming_content)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert f"{best.public_id}/model.safetensors" in tar.getnames()
    promoted = rest.post(f"{at}/promote")
    assert (promoted.status_code, promoted.json()["change"]) == (201, "training")
    assert rest.post(f"{at}/promote").json()["id"] == promoted.json()["id"], "once"
    tried = rest.post(f"{at}/try", {"item": ""})
    assert tried.status_code == 202, tried.content
    assert Rollout.objects.filter(batch__source=tried.json()["source"]).count() == 2
    for deed in ("archive", "promote", "try"):
        assert theirs.post(f"{at}/{deed}").status_code == 404
    assert rest.delete(f"/api/checkpoints/{old.public_id}").status_code == 204
    assert Checkpoint.objects.get(pk=old.pk).is_deleted
    assert rest.delete(at).status_code == 409, "the agent answers with it"


def test_file_in_another_encoding_is_imported_and_read_again(rest, theirs, member, django_capture_on_commit_callbacks):
    content = '{"messages": [{"role": "user", "content": "增值税在哪里征收？"}]}\n'.encode("gb18030")
    source = source_file_upload(actor=member, filename="rows.jsonl", content=io.BytesIO(content)).public_id
    dataset = rest.post("/api/datasets", {"name": "Tax"}).json()["id"]
    wanted = {"source_file": source, "encoding": "gb18030"}
    made = rest.post(f"/api/datasets/{dataset}/imports", wanted)
    assert (made.status_code, made.json()["item_count"]) == (202, 1), made.content
    assert Item.objects.get().title == "增值税在哪里征收？"
    refused = rest.post(f"/api/datasets/{dataset}/imports", {**wanted, "encoding": "rot13"})
    assert (refused.status_code, refused.json()["where"]) == (400, "encoding")
    at = f"/api/versions/{made.json()['id']}/reread"
    for encoding, count in (("", 0), ("gb18030", 1)):
        with django_capture_on_commit_callbacks(execute=True):
            answer = rest.post(at, {"encoding": encoding})
        assert answer.status_code == 200, answer.content
        assert Item.objects.count() == count
    assert theirs.post(at, {"encoding": ""}).status_code == 404
    assert theirs.post(f"/api/datasets/{dataset}/imports", wanted).status_code == 404


def test_documents_become_a_corpus_once(rest, theirs):
    files = [SimpleUploadedFile("a.txt", b"Pears are taxed at 12."), SimpleUploadedFile("b.txt", b"Tea at 4.")]
    made = rest.upload("/api/corpora", files=files)
    assert (made.status_code, made.json()["document_count"]) == (201, 2)
    again = rest.upload("/api/corpora", files=[SimpleUploadedFile("a.txt", b"Pears are taxed at 12."),
                                               SimpleUploadedFile("b.txt", b"Tea at 4.")])  # fmt: skip
    assert again.json()["id"] == made.json()["id"]
    assert [row["id"] for row in rest.get("/api/corpora").json()["data"]] == [Corpus.objects.get().public_id]
    assert theirs.get("/api/corpora").json()["data"] == []
    assert rest.upload("/api/corpora", files=[SimpleUploadedFile("a.txt", b"  ")]).status_code == 400
    assert rest.upload("/api/corpora").status_code == 400


def test_searches_and_masks_are_kept_and_removed(rest, theirs, team):
    made = rest.post("/api/saved-views", {"name": "failed", "query": "error=1&page=7"}).json()
    assert [row["name"] for row in rest.get("/api/saved-views").json()["data"]] == ["failed"]
    assert theirs.delete(f"/api/saved-views/{made['id']}").status_code == 404
    assert rest.delete(f"/api/saved-views/{made['id']}").status_code == 204
    assert not SavedView.objects.exists()
    MaskRule.objects.create(team=team, kind="words", words="Project Blue")
    assert rest.get("/api/mask-rules").json()["data"][0]["words"] is None, "an engineer changes no rules"
    assert rest.post("/api/mask-rules", {"kind": "email"}).status_code == 403
    assert theirs.get("/api/mask-rules").json()["data"] == []


def test_rollouts_become_items_of_a_new_dataset(rest, ready_baseline):  # noqa: F811
    wanted = {"name": "From rollouts", "answers": "passed", "filters": {"source": ready_baseline.public_id}}
    made = rest.post("/api/rollout-items", wanted)
    assert made.status_code == 201, made.content
    assert Item.objects.filter(version__dataset__name="From rollouts").count() == made.json()["count"] > 0
    assert rest.post("/api/rollout-items", {**wanted, "filters": {"colour": "red"}}).json()["where"] == "filters"
    assert rest.post("/api/rollout-items", {"filters": {}}).json()["where"] == "name"
    viewer = Door(key_of(ready_baseline.team, Role.VIEWER))
    assert viewer.post("/api/rollout-items", wanted).status_code == 403


def test_judge_and_knowledge_are_asked_or_say_why_not(rest, ready_baseline):  # noqa: F811
    rollout = Rollout.objects.first()
    at, model = f"/api/rollouts/{rollout.public_id}", {"model": ready_baseline.model.public_id}
    assert rest.post(f"{at}/judge", {"model": "model-none"}).status_code == 404
    Rollout.objects.update(n_steps=0)
    refused = rest.post(f"{at}/judge", model)
    assert (refused.status_code, refused.json()["where"]) == (400, "rollout")
    assert "It has 0 steps" in refused.json()["detail"]
    assert rest.post(f"{at}/knowledge").status_code == 400
    Rollout.objects.update(n_steps=1)
    assert rest.post(f"{at}/judge", model).status_code == 202
    assert RolloutCredit.objects.get().detail["model"] == ready_baseline.model.name
    assert AuditEvent.objects.filter(verb="rollout.judge_asked").exists()
