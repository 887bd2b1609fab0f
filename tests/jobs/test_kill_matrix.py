"""Each part of Studio dies once in each state of a job: the job ends true, rollouts and charges are there exactly once.

The trainer is a real process. What dies on our side is cut off where it hurts most: between two writes, or between a
write and what should follow it. The same with all processes real stands in tests/services/test_kill.py.
"""

import json
import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.db import OperationalError, connection
from kombu.exceptions import OperationalError as BrokerDown

from jobs import journal, services, supervision
from jobs.backends.trl.backend import TrlBackend
from jobs.models import Job
from jobs.rollouts.models import Rollout
from jobs.services import job_cancel, job_launch, job_pause, job_resume
from rftstudio.core.errors import Conflict
from rftstudio.ops import processes
from rftstudio.usage.models import Unit, UsageRecord
from tests.jobs.conftest import trainer_of

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
STATES = ("validating", "queued", "running", "pausing", "finishing")
PLAN = {"max_steps": 3, "batch_size": 2, "group_size": 2, "eval_interval": 2, "eval_samples": 1, "max_eval_items": 2}


class Killed(BaseException):
    """A process ended here, with signal 9: nothing behind this point runs, nobody hands anything back."""


@pytest.fixture
def start(member, ready_baseline, trainer):
    def started() -> Job:
        trainer(step_seconds=0.01, wait_at=2)
        return job_launch(actor=member, baseline=ready_baseline, plan=PLAN, launch_key="form-1")

    return started


def look(job: Job) -> Job:
    supervision.jobs_sync()
    job.refresh_from_db()
    return job


def until(condition, seconds: float = 120.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.01)


def go(job: Job) -> None:
    """Let the trainer finish the train step at which it waits."""
    Path(job.run_dir, "go").touch()


def said(job: Job, kind: str) -> bool:
    path = Path(job.run_dir or "/none") / "journal.jsonl"
    return path.exists() and f'"type": "{kind}"' in path.read_text()


def bring_to(job: Job, state: str, member, monkeypatch) -> Job:
    """The job in that state, with whatever process belongs to it."""
    if state == "validating":
        return job
    with monkeypatch.context() as patch:
        patch.setattr(supervision, "_claim_slot", lambda job: False)
        look(job)
    if state == "queued":
        return job
    look(job)
    if state == "finishing":
        go(job)
        until(lambda: said(job, "finished"))
        return job
    until(lambda: look(job).done_steps >= 1)
    return job_pause(actor=member, job=job) if state == "pausing" else job


def see_through(job: Job, member) -> Job:
    """Looks as the beat asks for them, and resumes like a person; until the job has ended."""

    def ended() -> bool:
        if job.run_dir:
            go(job)
        if look(job).status == "paused":
            job_resume(actor=member, job=job)
        return not job.is_active and job.status != "paused"

    until(ended)
    return job


def check_true(job: Job) -> None:
    """Every step once, every rollout once, every second charged once; the trainer has gone."""
    assert (job.status, job.error) == ("succeeded", None), job.status_note
    assert list(job.train_steps.order_by("number").values_list("number", flat=True)) == [1, 2, 3]
    rollouts = Rollout.objects.filter(batch__source=job.public_id)
    assert rollouts.filter(batch__kind="train_step").count() == job.result["rollouts"] == 12
    assert rollouts.filter(batch__kind="validation").count() == 4
    keys = list(rollouts.values_list("batch", "group_key", "sample_index"))
    assert len(keys) == len(set(keys))
    told = [json.loads(line) for line in (Path(job.run_dir) / "journal.jsonl").read_text().splitlines()]
    ran = sum(line["type"] == "step" for line in told)
    charges = UsageRecord.objects.filter(batch_source=job.public_id, unit=Unit.TRAINING_SECOND)
    assert charges.count() == charges.values("source").distinct().count() == ran, "each update that ran, once"
    assert job.journal_cursor == (Path(job.run_dir) / "journal.jsonl").stat().st_size
    assert job.events.filter(message__startswith="Finished after").count() == 1
    assert not processes.is_alive(trainer_of(job))


@contextmanager
def dies_in(monkeypatch, where, name: str, *, after: bool):
    """The process ends when it calls this, before it or right behind it; the lease stays as it is."""
    real = getattr(where, name)

    def dead(*args, **kwargs):
        if after:
            real(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(where, name, dead)
        patch.setattr(supervision.Lease, "give_back", lambda self: None)
        yield


def kill_web(job: Job, state: str, member, monkeypatch) -> None:
    """The web process dies within a person's request."""
    if state == "validating":
        with monkeypatch.context() as patch:  # the answer never came: the person sends the form again
            patch.setattr(services, "queue", lambda *args, **kwargs: None)
            again = job_launch(actor=member, baseline=job.baseline, plan=PLAN, launch_key="form-1")
        assert (again, Job.objects.count()) == (job, 1)
        return
    if state == "pausing":
        with dies_in(monkeypatch, services, "audit", after=True), pytest.raises(Killed):
            job_cancel(actor=member, job=job)  # within the transaction, so it never was
        return
    where, name = (services, "audit") if state == "queued" else (TrlBackend, "pause")
    with dies_in(monkeypatch, where, name, after=False), pytest.raises(Killed):
        job_pause(actor=member, job=job)  # noted, or not; told to nobody


def kill_worker(job: Job, state: str, member, monkeypatch) -> None:
    """The worker dies within a look and leaves its lease behind."""
    where, name = {
        "validating": (supervision, "job_move"),
        "queued": (supervision, "_submit"),
    }.get(state, (journal, "events_apply"))
    if state in {"running", "pausing"}:
        go(job)
        until(lambda: Path(job.run_dir, "journal.jsonl").stat().st_size > Job.objects.get(pk=job.pk).journal_cursor)
    with dies_in(monkeypatch, where, name, after=state != "queued"), pytest.raises(Killed):
        supervision.jobs_sync()
    before = Job.objects.get(pk=job.pk)
    assert before.lease_until is not None
    assert not supervision.job_sync(job_id=job.pk), "nobody else may look while the lease runs"
    Job.objects.filter(pk=job.pk).update(lease_until=before.lease_until - 2 * supervision.timedelta(seconds=30))


def kill_beat(job: Job, state: str, member, monkeypatch) -> None:
    """Nobody asks for a look for a long time; then two beats ask at once."""
    if job.run_dir:
        go(job)
        until(lambda: not processes.is_alive(trainer_of(job)))
    look(job)
    look(job)


def kill_broker(job: Job, state: str, member, monkeypatch) -> None:
    """No message can be sent; what a person asks for is done all the same, or refused whole."""

    def down(*args, **kwargs):
        raise BrokerDown("no connection to the broker")

    from jobs import tasks

    with monkeypatch.context() as patch:
        for task in (tasks.job_start, tasks.job_sync, tasks.job_credit):
            patch.setattr(task, "apply_async", down)
            patch.setattr(task, "delay", down)
        if state in {"queued", "running"}:
            job_pause(actor=member, job=job)
        elif state == "pausing":
            with pytest.raises(Conflict):
                job_pause(actor=member, job=job)
        look(job)


def kill_trainer(job: Job, state: str, member, monkeypatch) -> None:
    """Signal 9. Before there is a trainer, the one that will be started dies in its first step."""
    if state in {"validating", "queued"}:
        monkeypatch.setenv("FAKE_TRAINER", json.dumps({"step_seconds": 0.01, "crash_at": [1]}))
    elif processes.is_alive(trainer_of(job)):
        os.kill(trainer_of(job)["pid"], signal.SIGKILL)


def kill_database(job: Job, state: str, member, monkeypatch) -> None:
    """The connection breaks at the first write of a look, at the second one, and so on."""
    if job.run_dir:
        go(job)
    for place in range(1, 9):
        writes = 0

        def breaks(execute, sql, params, many, context, place=place):
            nonlocal writes
            if sql.split(" ", 1)[0] in {"UPDATE", "INSERT", "DELETE"}:
                writes += 1
                if writes == place:
                    raise OperationalError("server closed the connection unexpectedly")
            return execute(sql, params, many, context)

        with connection.execute_wrapper(breaks), suppress(OperationalError):
            supervision.jobs_sync()  # the task fails, and the next beat asks again
        Job.objects.filter(pk=job.pk).update(lease_until=None)  # as when it has run out


KILLS = {
    "web": kill_web,
    "worker": kill_worker,
    "beat": kill_beat,
    "broker": kill_broker,
    "trainer": kill_trainer,
    "database": kill_database,
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "victim",
    # What a broken connection undoes is only seen with real transactions.
    [pytest.param(name, marks=pytest.mark.django_db(transaction=True) if name == "database" else ()) for name in KILLS],
)
def test_job_ends_true_whoever_dies_whenever(victim, state, start, member, monkeypatch):
    job = bring_to(start(), state, member, monkeypatch)
    KILLS[victim](job, state, member, monkeypatch)
    job.refresh_from_db()
    check_true(see_through(job, member))
