"""A person ends a job in the middle of a train step: real trainer, real money, and a step that hears nothing."""

import threading
import time

import pytest

from jobs.models import Job
from jobs.rollouts.models import Rollout
from jobs.services import job_cancel, job_launch, jobs_sync
from rftstudio.ops import processes
from rftstudio.usage.models import LedgerLine, Reservation, UsageRecord
from tests.factories.studio import ready_baseline_of
from tests.factories.usage import PriceFactory
from tests.fakes.server import HttpServer, Reply
from tests.jobs.backends.trl.runs import BASE_MODEL
from tests.jobs.conftest import look_until, trainer_of

pytestmark = [pytest.mark.training, pytest.mark.django_db(transaction=True)]
PLAN = {
    "max_steps": 50, "batch_size": 2, "group_size": 2, "eval_interval": 50, "eval_samples": 1, "max_eval_items": 1,
    "max_completion_tokens": 24,
}  # fmt: skip
FIRST_STEP = PLAN["batch_size"] * PLAN["group_size"]


@pytest.fixture
def grader():
    """Grades the first train step at once and never answers for the second; `asked` is set when it is."""
    asked, count = threading.Event(), iter(range(10**6))

    def grade(request) -> Reply:
        if next(count) < FIRST_STEP:
            return Reply.of({"score": 0.5})
        asked.set()
        return Reply.of({"score": 0.5}, seconds=600)

    with HttpServer(grade) as server:
        server.asked = asked
        yield server


@pytest.fixture
def job(member, grader, settings, tmp_path, monkeypatch) -> Job:
    monkeypatch.setenv("STUDIO_ALLOWED_PRIVATE_HOSTS", "127.0.0.1")
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    settings.RUNS_DIR, settings.VAR_DIR = tmp_path / "runs", tmp_path
    PriceFactory(usd="0.10")
    baseline = ready_baseline_of(member)
    baseline.model.model = str(BASE_MODEL)
    baseline.model.save()
    version = baseline.grader_version
    version.config = {"type": "endpoint", "name": "far", "url": grader.url}
    version.save()
    found = job_launch(actor=member, baseline=baseline, plan=PLAN)
    yield found
    for path in (tmp_path / "runs").glob("*/process.json"):
        processes.end(processes.pid_file_read(path), grace=0, group=True)


def test_cancel_in_the_middle_of_a_train_step_stops_work_and_cost(job, member, grader):
    look_until(job, until=lambda job: grader.asked.is_set() and job.done_steps == 1, seconds=240)
    leader = trainer_of(job)
    tree = [leader, *processes.descendants(leader)]
    began = time.monotonic()
    job_cancel(actor=member, job=job)
    job = look_until(job, seconds=60)
    assert time.monotonic() - began < 10
    assert job.status == "cancelled"
    assert not any(map(processes.is_alive, tree)), "nothing of it computes any more"
    assert "cut" in job.events.get(message__startswith="Cancelled. Complete").message, "it ended itself"

    rollouts = Rollout.objects.filter(batch__source=job.public_id, batch__kind="train_step").count()
    assert rollouts == FIRST_STEP
    assert (
        f"Kept: 1 train step, {FIRST_STEP} rollouts, 0 checkpoints. The train step at work was dropped."
        in job.status_note
    )
    assert job.events.filter(message__contains="Kept: 1 train step").count() == 1

    charged = UsageRecord.objects.filter(batch_source=job.public_id, unit="training_second")
    assert charged.count() == 1, "the step that was done, and not the one that was cut"
    lines = LedgerLine.objects.count()
    assert Reservation.objects.get(source=job.public_id).left_usd == 0
    jobs_sync()
    assert LedgerLine.objects.count() == lines
