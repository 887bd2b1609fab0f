"""Launching, pausing, resuming, cancelling and publishing, without a trainer."""

import pytest

from jobs.models import Checkpoint, Job
from jobs.services import NotReady, checkpoint_publish, job_cancel, job_launch, job_pause, job_resume
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.models import AuditEvent
from tests.factories.studio import ready_baseline_of


def test_job_launch_fills_the_plan_and_tells_its_story(member, ready_baseline):
    job = job_launch(actor=member, baseline=ready_baseline, plan={"n_epochs": 2, "batch_size": 4}, seed=7, name="first")
    assert (job.number, job.status, job.seed, job.name) == (1, "validating_files", 7, "first")
    assert (job.plan["max_steps"], job.total_steps, job.plan["group_size"]) == (6, 6, 8)
    assert job.base_model == ready_baseline.model
    assert job.events.filter(message__startswith="Launched by").exists()
    assert job.events.filter(type="readiness", level="warn").exists(), "warnings are noted on the job"
    assert AuditEvent.objects.filter(verb="job.launched", object_id=job.public_id).exists()


def test_job_launch_with_the_same_key_finds_the_first_job(member, ready_baseline):
    jobs = [job_launch(actor=member, baseline=ready_baseline, plan={}, launch_key="form-1") for _ in range(2)]
    assert jobs[0] == jobs[1]
    assert Job.objects.count() == 1
    other = job_launch(actor=member, baseline=ready_baseline, plan={}, launch_key="form-2")
    assert other.number == 2


def test_job_launch_by_a_viewer_or_a_stranger_is_refused(viewer, stranger, ready_baseline):
    with pytest.raises(NotAllowed):
        job_launch(actor=viewer, baseline=ready_baseline, plan={})
    with pytest.raises(NotFound):
        job_launch(actor=stranger, baseline=ready_baseline, plan={})
    assert not Job.objects.exists()


def test_job_launch_from_a_baseline_that_is_not_ready_is_refused(member):
    flat = ready_baseline_of(member, rewards=(0.0,))
    with pytest.raises(NotReady, match="Practice cannot strengthen"):
        job_launch(actor=member, baseline=flat, plan={})
    with pytest.raises(NotReady):
        job_launch(actor=member, baseline=flat, plan={}, override="I am an engineer and insist")
    assert not Job.objects.exists()


def test_job_launch_overruled_by_an_owner_is_kept_in_the_audit_log(owner):
    flat = ready_baseline_of(owner, rewards=(0.0,))
    job = job_launch(actor=owner, baseline=flat, plan={}, override="A dry run of the machine")
    assert AuditEvent.objects.get(verb="job.readiness_overruled").data["reason"] == "A dry run of the machine"
    assert job.events.filter(message__contains="A dry run of the machine").exists()


def test_job_launch_from_an_unfinished_baseline_cannot_be_overruled(owner):
    baseline = ready_baseline_of(owner)
    baseline.status = "running"
    baseline.save()
    with pytest.raises(NotReady, match="too early"):
        job_launch(actor=owner, baseline=baseline, plan={}, override="now")


@pytest.mark.parametrize(
    "plan, where",
    [
        ({"n_epochs": 0}, "n_epochs"),
        ({"n_epochs": 2.5}, "n_epochs"),
        ({"batch_size": 13}, "batch_size"),
        ({"group_size": 1}, "group_size"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"loss_type": "ppo"}, "loss_type"),
        ({"learning_rat": 0.1}, "learning_rat"),
        ({"reasoning_effort": "maximal"}, "reasoning_effort"),
    ],
)
def test_job_launch_with_an_impossible_plan_names_the_field(member, ready_baseline, plan, where):
    with pytest.raises(UserError) as caught:
        job_launch(actor=member, baseline=ready_baseline, plan=plan)
    assert caught.value.where == where
    assert caught.value.fix
    assert not Job.objects.exists()


def test_job_launch_with_an_unknown_backend_is_refused(member, ready_baseline):
    with pytest.raises(UserError, match="no backend named x"):
        job_launch(actor=member, baseline=ready_baseline, plan={}, backend="x")


def job_in(member, baseline, status: str, **fields) -> Job:
    job = job_launch(actor=member, baseline=baseline, plan={})
    Job.objects.filter(pk=job.pk).update(status=status, **fields)
    job.refresh_from_db()
    return job


def test_job_pause_of_a_waiting_job_stops_it_at_once_and_resume_queues_it(member, ready_baseline):
    job = job_pause(actor=member, job=job_in(member, ready_baseline, "queued"))
    assert job.status == "paused"
    assert job_resume(actor=member, job=job).status == "queued"


@pytest.mark.parametrize("status", ["validating_files", "paused", "succeeded", "failed", "cancelled", "cancelling"])
def test_job_pause_of_a_job_that_does_not_run_is_refused(member, ready_baseline, status):
    job = job_in(member, ready_baseline, status)
    with pytest.raises(Conflict):
        job_pause(actor=member, job=job)
    job.refresh_from_db()
    assert job.status == status


@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "cancelled"])
def test_job_resume_of_a_job_that_is_not_paused_is_refused(member, ready_baseline, status):
    with pytest.raises(Conflict):
        job_resume(actor=member, job=job_in(member, ready_baseline, status))


@pytest.mark.parametrize("status", ["validating_files", "queued", "paused"])
def test_job_cancel_of_a_job_that_waits_ends_it_at_once(member, ready_baseline, status):
    job = job_cancel(actor=member, job=job_in(member, ready_baseline, status), note="wrong dataset")
    assert job.status == "cancelled"
    assert job.finished_at
    assert "wrong dataset" in job.status_note
    assert job.events.filter(message__contains="wrong dataset").exists()


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_job_cancel_of_an_ended_job_is_refused(member, ready_baseline, status):
    with pytest.raises(Conflict, match="ended already"):
        job_cancel(actor=member, job=job_in(member, ready_baseline, status))


def test_job_services_by_a_viewer_are_refused(member, viewer, ready_baseline):
    job = job_in(member, ready_baseline, "running")
    for service in (job_pause, job_resume, job_cancel):
        with pytest.raises(NotAllowed):
            service(actor=viewer, job=job)


@pytest.fixture
def checkpoint(member, ready_baseline, settings, tmp_path):
    settings.VAR_DIR = tmp_path
    folder = tmp_path / "runs/x/checkpoints/checkpoint-5"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "optimizer.pt", "training_args.bin"):
        (folder / name).write_text("{}")
    job = job_in(member, ready_baseline, "succeeded")
    return Checkpoint.objects.create(team=job.team, job=job, step_number=5, path=str(folder), digest="d" * 64)


def test_checkpoint_publish_copies_the_weights_once(member, checkpoint, tmp_path):
    model = checkpoint_publish(actor=member, checkpoint=checkpoint)
    again = checkpoint_publish(actor=member, checkpoint=checkpoint)
    assert model == again
    assert (model.kind, model.is_trainable, model.digest) == ("local", True, "d" * 64)
    assert model.name == "Job 1, train step 5"
    kept = {path.name for path in (tmp_path / "models" / checkpoint.public_id).iterdir()}
    assert kept == {"config.json", "model.safetensors", "tokenizer.json"}, "optimizer state and pickles stay behind"


def test_checkpoint_publish_of_deleted_weights_is_refused(member, checkpoint):
    checkpoint.path = "/gone"
    checkpoint.save()
    with pytest.raises(Conflict, match="no longer kept"):
        checkpoint_publish(actor=member, checkpoint=checkpoint)


def test_checkpoint_publish_by_a_viewer_is_refused(viewer, checkpoint):
    with pytest.raises(NotAllowed):
        checkpoint_publish(actor=viewer, checkpoint=checkpoint)
