"""Checkpoints: publish, promote, download, delete, expire, and the page that sets base and tuned side by side."""

import io
import tarfile
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs import checkpoints, playground
from jobs.agents.models import AgentVersion, ModelEndpoint
from jobs.checkpoints import checkpoints_expire, checkpoints_warn
from jobs.models import Checkpoint, Job
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.services import (
    checkpoint_delete,
    checkpoint_download,
    checkpoint_expiry_set,
    checkpoint_promote,
    checkpoint_publish,
    job_launch,
)
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.models import AuditEvent
from rftstudio.usage.models import Notice
from tests.factories.studio import rollouts_end


def weights(folder, step=2, *, adapter=False):
    """A saved folder as the trainer leaves it."""
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    name = "adapter" if adapter else ""
    (path / (f"{name}_config.json" if adapter else "config.json")).write_text('{"base_model_name_or_path": "/base"}')
    (path / (f"{name}_model.safetensors" if adapter else "model.safetensors")).write_bytes(b"weights" * 300)
    (path / "tokenizer.json").write_text("{}")
    (path / "optimizer.pt").write_bytes(b"state")
    (path / "trainer_state.json").write_text("{}")
    (path / "studio-complete.json").write_text("{}")
    return path


@pytest.fixture
def job(member, ready_baseline, settings, tmp_path):
    settings.VAR_DIR = tmp_path / "var"
    job = job_launch(actor=member, baseline=ready_baseline, plan={"max_steps": 4})
    Job.objects.filter(pk=job.pk).update(status="succeeded", finished_at=timezone.now())
    return job


@pytest.fixture
def make(job, tmp_path):
    def made(step=2, reward=0.5, *, adapter=False):
        return Checkpoint.objects.create(
            team=job.team, job=job, step_number=step, path=str(weights(tmp_path / "run", step, adapter=adapter)),
            validation_reward=reward, digest="d" * 64,
        )  # fmt: skip

    return made


def test_checkpoint_of_an_adapter_is_published_with_what_a_server_needs(member, make):
    model = checkpoint_publish(actor=member, checkpoint=make(adapter=True))
    names = {path.name for path in checkpoints.Path(model.model).iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= names
    assert "optimizer.pt" not in names
    assert checkpoint_publish(actor=member, checkpoint=Checkpoint.objects.get()) == model


def test_promoted_checkpoint_answers_in_the_agents_next_version_once(member, job, make):
    one = make()
    version = checkpoint_promote(actor=member, checkpoint=one)
    trained = job.baseline.agent_version
    assert (version.agent, version.number, version.change) == (trained.agent, trained.number + 1, "training")
    assert version.model == Checkpoint.objects.get().model
    assert (version.system_prompt, version.limits) == (trained.system_prompt, trained.limits)
    assert checkpoint_promote(actor=member, checkpoint=one) == version
    assert AgentVersion.objects.count() == 2
    assert AuditEvent.objects.filter(verb="checkpoint.promoted").count() == 1


def test_download_is_an_archive_of_what_a_server_needs(member, make):
    name, parts = checkpoint_download(actor=member, checkpoint=make(adapter=True))
    with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
        folder = name.removesuffix(".tar")
        assert set(archive.getnames()) == {
            f"{folder}/{file}" for file in ("adapter_config.json", "adapter_model.safetensors", "tokenizer.json")
        }
        assert archive.extractfile(f"{folder}/adapter_model.safetensors").read() == b"weights" * 300


def test_deleted_checkpoint_is_gone_from_disk_and_another_is_best(member, job, make):
    best, other = make(2, 0.9), make(4, 0.5)
    checkpoint_publish(actor=member, checkpoint=best)
    checkpoint_delete(actor=member, checkpoint=best)
    best.refresh_from_db()
    job.refresh_from_db()
    assert best.is_deleted
    assert job.best_checkpoint == other
    assert job.events.filter(message__contains="deleted the checkpoint of train step 2").exists()
    with pytest.raises(Conflict, match="no longer kept"):
        checkpoint_delete(actor=member, checkpoint=best)


@pytest.mark.django_db(transaction=True)
def test_deleted_checkpoint_takes_its_folders_along(member, make):
    one = make()
    model = checkpoint_publish(actor=member, checkpoint=one)
    checkpoint_delete(actor=member, checkpoint=one)
    assert not checkpoints.Path(one.path).exists()
    assert not checkpoints.Path(model.model).exists()
    assert not ModelEndpoint.objects.get(pk=model.pk).is_trainable, "no job may start from it"


def test_checkpoint_that_something_needs_is_not_deleted(member, job, make):
    one = make()
    Job.objects.update(status="paused")
    with pytest.raises(Conflict, match="goes on from this checkpoint"):
        checkpoint_delete(actor=member, checkpoint=one)
    Job.objects.update(status="succeeded")
    checkpoint_promote(actor=member, checkpoint=one)
    with pytest.raises(Conflict, match="answers with this checkpoint"):
        checkpoint_delete(actor=member, checkpoint=one)
    AgentVersion.objects.filter(change="training").delete()
    Job.objects.update(base_model=Checkpoint.objects.get().model)
    with pytest.raises(Conflict, match="Job 1 started from"):
        checkpoint_delete(actor=member, checkpoint=one)


def test_owners_are_told_once_before_a_checkpoint_goes(job, make):
    soon, later = make(1), make(2)
    Checkpoint.objects.filter(pk=soon.pk).update(expires_at=timezone.now() + timedelta(days=2))
    Checkpoint.objects.filter(pk=later.pk).update(expires_at=timezone.now() + timedelta(days=4))
    assert checkpoints_warn() == 1
    assert checkpoints_warn() == 0
    notice = Notice.objects.get()
    assert notice.team == job.team
    assert "train step 1 expires" in notice.text
    assert job.public_id in notice.url


def test_expired_checkpoint_goes_unless_it_is_served(member, job, make):
    served, kept, due = make(2), make(3), make(4)
    checkpoint_publish(actor=member, checkpoint=served)
    checkpoint_expiry_set(actor=member, checkpoint=kept, days=30)
    Checkpoint.objects.exclude(pk=kept.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert checkpoints_expire() == 1
    assert checkpoints_expire() == 0
    assert list(Checkpoint.objects.filter(is_deleted=True)) == [due]
    assert not checkpoints.Path(due.path).exists()
    assert checkpoints.Path(kept.path).exists()
    assert checkpoint_expiry_set(actor=member, checkpoint=kept, days=None).expires_at is None
    with pytest.raises(UserError, match="not possible"):
        checkpoint_expiry_set(actor=member, checkpoint=kept, days=0)


def test_checkpoint_deeds_are_for_those_with_the_right(viewer, stranger, make):
    one = make()
    for deed in (checkpoint_promote, checkpoint_download, checkpoint_delete):
        with pytest.raises(NotAllowed):
            deed(actor=viewer, checkpoint=one)
        with pytest.raises(NotFound):
            deed(actor=stranger, checkpoint=one)


def address(name, checkpoint):
    return reverse(f"jobs:{name}", args=[checkpoint.team.slug, checkpoint.public_id])


def test_job_page_offers_each_deed_and_they_lead_back(client_of, member, job, make):
    one, client = make(), client_of(member)
    page = client.get(reverse("jobs:job-detail", args=[member.team.slug, job.public_id])).content.decode()
    for words in ("Try beside the base", "Promote", "Download", "Delete in 30 days", "Delete now"):
        assert words in page, words
    assert client.post(address("checkpoint-expiry", one), {"days": "x"}).status_code == 400
    client.post(address("checkpoint-expiry", one), {"days": "30"})
    assert "until " in client.get(reverse("jobs:job-detail", args=[member.team.slug, job.public_id])).content.decode()
    answer = client.post(address("checkpoint-download", one))
    assert answer["Content-Disposition"] == f'attachment; filename="{one.public_id}.tar"'
    assert b"".join(answer.streaming_content).count(b"weights") == 300
    assert client.post(address("checkpoint-delete", one)).status_code == 302
    assert Checkpoint.objects.get().is_deleted


def test_playground_lets_base_and_tuned_try_one_held_out_item(client_of, member, make):
    one, client = make(), client_of(member)
    page = client.get(address("checkpoint-try", one) + "?item=test-1").content.decode()
    assert "test 1" in page
    assert "item=test-2" in page
    answer = client.post(address("checkpoint-try", one), {"item": "test-1"})
    assert answer.status_code == 302
    batches = list(RolloutBatch.objects.filter(source__startswith=playground.PREFIX).order_by("id"))
    assert [batch.model.name for batch in batches] == [one.job.base_model.name, "Job 1, train step 2"]
    assert [rollout.group_key for rollout in Rollout.objects.filter(batch__in=batches)] == ["test-1"] * 2
    waiting = client.get(answer["Location"]).content.decode()
    assert waiting.count("It is trying") == 2
    assert 'hx-trigger="every 1s"' in waiting
    rollouts_end(batches[0], [0.0])
    rollouts_end(batches[1], [1.0])
    part = client.get(answer["Location"], headers={"HX-Request": "true"}).content.decode()
    assert "hx-trigger" not in part
    assert "<html" not in part
    assert "Job 1, train step 2" in part


def test_playground_knows_only_its_own_tries_and_held_out_items(client_of, member, make, ready_baseline):
    one, client = make(), client_of(member)
    assert client.get(address("checkpoint-try", one) + "?item=train-1").status_code == 404
    assert client.get(address("checkpoint-try", one) + f"?run={ready_baseline.public_id}").status_code == 404
    assert client.get(address("checkpoint-try", one) + "?run=try_none").status_code == 404


def test_plan_may_let_checkpoints_expire_after_the_end(job, make):
    from jobs.journal import events_apply

    best, other = make(2, 0.9), make(4, 0.5)
    Job.objects.update(status="running", plan=job.plan | {"keep_days": 7}, best_checkpoint=best)
    job.refresh_from_db()
    events_apply(job, [{"seq": 1, "at": 1.0, "type": "finished", "status": "succeeded", "seconds": 1.0}])
    best.refresh_from_db()
    other.refresh_from_db()
    assert best.expires_at is None
    assert timedelta(days=6) < other.expires_at - timezone.now() < timedelta(days=8)
