"""Looking after jobs, with real processes: a scripted trainer, crashes, pauses, cancels, rival workers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from jobs import journal, selectors, supervision, troubles
from jobs.evaluations.intervals import mean_interval
from jobs.models import Checkpoint, Job, JobEvent
from jobs.rollouts.models import Rollout
from jobs.services import job_cancel, job_launch, job_pause, job_resume
from rftstudio.ops import processes
from rftstudio.usage.models import UsageRecord
from tests.jobs.conftest import SMALL, look_until, trainer_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]


@pytest.fixture
def launch(member, ready_baseline, trainer):
    def launched(**plan) -> Job:
        return job_launch(actor=member, baseline=ready_baseline, plan=SMALL | plan)

    return launched


def train_rollouts(job: Job):
    return Rollout.objects.filter(batch__source=job.public_id, batch__kind="train_step")


def check_whole(job: Job) -> None:
    """What every succeeded job must show: each step once, each rollout once, as many as the trainer says."""
    assert job.status == "succeeded", job.status_note
    assert list(job.train_steps.order_by("number").values_list("number", flat=True)) == [1, 2, 3, 4, 5, 6]
    assert train_rollouts(job).count() == job.result["rollouts"] == selectors.rollout_counts(job)[0] == 36
    checks = Rollout.objects.filter(batch__source=job.public_id, batch__kind="validation").count()
    assert selectors.rollout_counts(job)[1] == checks > 0
    keys = list(train_rollouts(job).values_list("batch", "group_key", "sample_index"))
    assert len(keys) == len(set(keys))
    assert job.done_steps == 6
    steps = UsageRecord.objects.filter(batch_source=job.public_id)
    assert steps.count() == steps.values("source").distinct().count() >= 6
    assert job.journal_cursor == (Path(job.run_dir) / "journal.jsonl").stat().st_size
    assert not processes.is_alive(trainer_of(job))


def test_job_runs_to_its_end_and_everything_comes_home(launch):
    job = look_until(launch())
    check_whole(job)
    assert job.best_checkpoint.step_number in {2, 4, 6}
    assert set(Checkpoint.objects.values_list("step_number", flat=True)) == {2, 4, 6}
    assert Rollout.objects.filter(batch__source=job.public_id, batch__kind="validation").count() == 3 * 4
    step = job.train_steps.get(number=2)
    assert step.batch.rollouts.count() == 6
    assert step.validation_reward is not None
    assert step.metrics["studio"]["groups"] == 2
    # What the page shows of the check is kept with the train step: the interval is that of its rollouts, by item.
    checks = Rollout.objects.filter(batch__source=job.public_id, batch__kind="validation", batch__train_step=2)
    by_item = {}
    for key, reward in checks.values_list("group_key", "reward"):
        by_item.setdefault(key, []).append(reward)
    assert step.metrics["studio_validation"]["interval"] == pytest.approx(mean_interval(list(by_item.values())))
    assert job.events.filter(type="metrics").count() == 6
    assert job.events.filter(type="metrics").first().message.startswith("Step 1/6, train mean reward=")
    assert (job.started_at, job.finished_at) != (None, None)


def test_jobs_sync_after_the_end_changes_nothing(launch):
    job = look_until(launch())
    before = Job.objects.values().get(pk=job.pk), JobEvent.objects.count(), Rollout.objects.count()
    supervision.jobs_sync()
    assert (Job.objects.values().get(pk=job.pk), JobEvent.objects.count(), Rollout.objects.count()) == before


def test_trainer_killed_starts_again_from_its_checkpoint_and_replaces_what_it_runs_again(launch, trainer):
    trainer(crash_at=[4])
    job = look_until(launch())
    check_whole(job)
    assert job.restarts == 1
    traces = train_rollouts(job).filter(batch__train_step=3).values_list("trace_id", flat=True)
    assert all("_2_3_" in trace for trace in traces), "the rollouts of the second attempt stay"
    warning = job.events.get(level="warn", message__contains="starts again")
    assert "out of memory" in warning.message


def test_trainer_killed_within_a_line_leaves_no_torn_event(launch, trainer):
    trainer(crash_at=[3], half_line=True)
    check_whole(look_until(launch()))


def test_trainer_killed_from_outside_at_any_moment_ends_whole(launch, trainer):
    trainer(hold_at=[3])
    job = look_until(launch(), until=lambda job: job.done_steps >= 2)
    os.kill(trainer_of(job)["pid"], signal.SIGKILL)
    check_whole(look_until(job))


def test_trainer_that_always_dies_fails_with_code_message_and_event(launch, trainer):
    trainer(crash_at=[1], crash_always=True)
    job = look_until(launch())
    assert job.status == "failed"
    assert job.error["code"] == "trainer_died"
    assert "out of memory" in job.error["message"]
    assert job.events.filter(level="error").exists()
    assert job.restarts == 3


def test_trainer_that_cannot_start_fails_with_its_last_words(launch, trainer):
    trainer(exit_at_start=True)
    job = look_until(launch())
    assert (job.status, job.error["code"]) == ("failed", "trainer_died")
    assert "No module named 'torch'" in job.error["message"]


def test_trainer_that_reports_a_failure_fails_the_job_in_its_words(launch, trainer):
    trainer(fail_at=2)
    job = look_until(launch())
    assert job.status == "failed"
    assert job.error == {"code": "grader_broken", "message": "The grader cannot be compiled.", "param": "grader"}
    assert job.events.filter(level="error", message="The grader cannot be compiled.").exists()


def test_metric_that_is_no_number_is_kept_as_such_and_fails_nothing(launch, trainer):
    trainer(nan_at=2)
    job = look_until(launch())
    check_whole(job)
    metrics = job.train_steps.get(number=2).metrics
    assert (metrics["grad_norm"], metrics["not_numbers"], metrics["loss"]) == (None, ["grad_norm"], 0.1)
    assert job.events.filter(message__contains="grad_norm is not a number").exists()


def test_job_pause_and_resume_goes_on_with_the_rows_not_yet_seen(launch, trainer, member):
    trainer(hold_at=[2])
    job = look_until(launch(), until=lambda job: job.done_steps >= 1)
    job_pause(actor=member, job=job)
    job = look_until(job, status="paused")
    paused_at = job.done_steps
    assert 1 <= paused_at < 6
    assert not processes.is_alive(trainer_of(job))
    supervision.jobs_sync()
    job.refresh_from_db()
    assert job.status == "paused", "nothing starts by itself"
    job_resume(actor=member, job=job)
    job = look_until(job)
    check_whole(job)
    seen = [
        row
        for step in job.train_steps.order_by("number")
        for row in step.batch.rollouts.order_by("id").values_list("group_key", flat=True).distinct()
    ]
    assert sorted(set(seen)) == sorted(f"train-{n}" for n in range(12)), "each row as often as without the pause"
    assert job.restarts == 0


def test_trainer_ended_in_an_orderly_way_by_the_machine_goes_on_by_itself(launch, trainer):
    trainer(hold_at=[2])
    job = look_until(launch(), until=lambda job: job.done_steps >= 1)
    os.kill(trainer_of(job)["pid"], signal.SIGTERM)
    job = look_until(job)
    check_whole(job)
    assert job.events.filter(message__contains="goes on by itself").exists()
    assert job.restarts == 0


def test_job_cancel_while_training_stops_within_ten_seconds(launch, trainer, member):
    trainer(step_seconds=30)
    job = look_until(launch(), until=lambda job: trainer_alive(job))
    began = time.monotonic()
    job_cancel(actor=member, job=job)
    job = look_until(job)
    assert time.monotonic() - began < 10
    assert job.status == "cancelled"
    assert not processes.is_alive(trainer_of(job))
    assert "Cancelled by" in job.status_note
    # How far the train step at work had come by then depends on the machine; what is said is what is there.
    rollouts = Rollout.objects.filter(batch__source=job.public_id, batch__kind="train_step").count()
    assert f"Kept: 0 train steps, {rollouts} rollouts, 0 checkpoints." in job.status_note


def trainer_alive(job: Job) -> bool:
    return bool(job.run_dir) and (Path(job.run_dir) / "journal.jsonl").exists()


#: Starts the trainer as launchers of several processes do: below itself, in a session of its own.
LAUNCHER = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]], start_new_session=True).returncode)
"""


def test_job_cancel_of_a_deaf_trainer_behind_a_launcher_kills_all_of_it(launch, trainer, member, settings, tmp_path):
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    settings.STUDIO_TRAINER_COMMAND.insert(1, str(tmp_path / "launcher.py"))
    trainer(step_seconds=30, deaf=True)
    job = look_until(launch(), until=trainer_alive)
    tree, began = [trainer_of(job), *processes.descendants(trainer_of(job))], time.monotonic()
    assert len(tree) == 2
    job_cancel(actor=member, job=job)
    job = look_until(job)
    assert time.monotonic() - began < 10
    assert job.status == "cancelled"
    assert "the trainer was stopped. Kept: 0 train steps" in job.status_note
    assert not any(map(processes.is_alive, tree))
    booked = UsageRecord.objects.count()
    supervision.jobs_sync()
    assert UsageRecord.objects.count() == booked


def test_job_cancel_before_a_worker_took_it_starts_nothing(launch, member):
    job = launch()
    job_cancel(actor=member, job=job)
    supervision.job_start(job_id=job.pk)
    job.refresh_from_db()
    assert job.status == "cancelled"
    assert not job.run_dir


def test_job_cancel_while_pausing_wins(launch, trainer, member):
    trainer(step_seconds=30)
    job = look_until(launch(), until=trainer_alive)
    job_pause(actor=member, job=job)
    job_cancel(actor=member, job=job)
    assert look_until(job).status == "cancelled"


def test_trainer_killed_while_pausing_ends_paused(launch, trainer, member):
    trainer(step_seconds=30)
    job = look_until(launch(), until=trainer_alive)
    job_pause(actor=member, job=job)
    os.kill(trainer_of(job)["pid"], signal.SIGKILL)
    job = look_until(job, status="paused")
    trainer(step_seconds=0.01)
    job_resume(actor=member, job=job)
    check_whole(look_until(job))


def test_second_job_waits_for_the_first_and_then_starts(launch, trainer):
    trainer(step_seconds=0.5)
    first, second = launch(), launch()
    look_until(first, until=trainer_alive)
    second.refresh_from_db()
    assert second.status == "queued"
    look_until(first)
    check_whole(look_until(second))


def test_worker_that_dies_before_the_start_leaves_a_job_that_starts(launch, monkeypatch):
    job = launch()
    monkeypatch.setattr(supervision, "_submit", lambda job, lease: None)
    supervision.jobs_sync()
    job.refresh_from_db()
    assert (job.status, job.process) == ("running", {})
    monkeypatch.undo()
    check_whole(look_until(job))


def test_start_of_a_run_that_lives_starts_no_second_trainer(launch, trainer):
    trainer(step_seconds=0.5)
    job = look_until(launch(), until=trainer_alive)
    first = trainer_of(job)
    supervision._submit(job, supervision.Lease(job.pk))
    time.sleep(0.3)
    assert trainer_of(job) == first
    lines = (Path(job.run_dir) / "journal.jsonl").read_text().splitlines()
    assert sum('"started"' in line for line in lines) == 1


def test_crash_between_reading_and_committing_loses_and_doubles_nothing(launch, trainer, monkeypatch):
    trainer(step_seconds=0.05)
    job, real, fell = launch(), journal.events_apply, []

    def falls_over(job, events):
        real(job, events)
        if len(fell) < 4:
            fell.append(1)
            raise RuntimeError("the worker died here")

    monkeypatch.setattr(journal, "events_apply", falls_over)
    check_whole(look_until(job))
    assert len(fell) == 4


def test_event_that_studio_cannot_take_in_fails_the_job_with_a_reference(launch, trainer, monkeypatch):
    trainer(step_seconds=30)
    monkeypatch.setattr(troubles, "MOST_FAULTS", 3)
    monkeypatch.setattr(journal, "events_apply", lambda job, events: 1 / 0)
    job = look_until(launch())
    assert (job.status, job.error["code"]) == ("failed", "studio_error")
    assert "reference" in job.error["message"]
    assert not processes.is_alive(trainer_of(job))


def test_two_workers_at_once_bring_everything_home_once(launch, trainer):
    trainer(step_seconds=0.05)
    job = launch()
    end, faults = threading.Event(), []

    def work():
        try:
            while not end.is_set():
                supervision.jobs_sync()
        except Exception as exc:
            faults.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        job.refresh_from_db()
        if not job.is_active:
            break
        time.sleep(0.05)
    end.set()
    [thread.join() for thread in threads]
    assert not faults
    check_whole(job)
    lines = (Path(job.run_dir) / "journal.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["type"] == "started" for line in lines) == 1


@pytest.fixture
def worker(settings, tmp_path):
    """`worker()` starts a process that looks after jobs of this test's database; all are killed afterwards."""
    started = []

    def start() -> subprocess.Popen:
        found = connection.settings_dict
        url = f"sqlite:///{found['NAME']}"
        if connection.vendor == "postgresql":
            url = f"postgres://{found['USER']}:{found['PASSWORD']}@{found['HOST']}:{found['PORT']}/{found['NAME']}"
        env = {**os.environ, "DATABASE_URL": url, "PYTHONPATH": str(Path(__file__).parents[2])}
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py")), str(settings.RUNS_DIR)],
            env=env, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline().strip() == "ready"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_until(check, seconds: float = 40.0) -> None:
    limit = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.02)


def fresh(job: Job) -> Job:
    job.refresh_from_db()
    return job


@pytest.mark.parametrize("dies", ["worker", "trainer", "both"])
def test_killed_processes_leave_a_job_that_ends_whole(launch, trainer, worker, dies):
    trainer(step_seconds=0.4)
    job, first = launch(), worker()
    wait_until(lambda: fresh(job).done_steps >= 2)
    if dies in {"trainer", "both"}:
        os.kill(trainer_of(job)["pid"], signal.SIGKILL)
    if dies in {"worker", "both"}:
        first.kill()
        first.wait()
        worker()
    wait_until(lambda: not fresh(job).is_active)
    check_whole(job)


def test_worker_killed_again_and_again_while_it_reads_loses_nothing(launch, trainer, worker):
    trainer(step_seconds=0.3)
    job = launch()
    for _ in range(3):
        process, cursor = worker(), fresh(job).journal_cursor
        wait_until(lambda: fresh(job).journal_cursor > cursor or not job.is_active)  # noqa: B023
        process.kill()
        process.wait()
    worker()
    wait_until(lambda: not fresh(job).is_active)
    check_whole(job)


def test_lease_taken_by_another_worker_is_respected(launch):
    job = launch()
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() + timedelta(seconds=60))
    assert not supervision.job_sync(job_id=job.pk)
    job.refresh_from_db()
    assert job.status == "validating_files"
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert supervision.job_sync(job_id=job.pk), "a lease that ran out is free"


def test_lease_that_was_lost_writes_nothing(launch):
    lease = supervision.Lease(launch().pk)
    assert lease.take()
    Job.objects.update(lease_until=timezone.now() + timedelta(seconds=99))
    with pytest.raises(supervision.LeaseLost), lease.renewed():
        Job.objects.update(name="written too late")
    assert not Job.objects.filter(name="written too late").exists()


def test_missing_model_folder_fails_before_anything_is_started(launch, ready_baseline):
    ready_baseline.model.model = "/nowhere/at/all"
    ready_baseline.model.save()
    job = look_until(launch())
    assert (job.status, job.error["code"]) == ("failed", "model_missing")
    assert "/nowhere/at/all" in job.error["message"]
    assert job.events.filter(level="error").exists()


def test_silent_grader_call_does_not_look_like_death(launch, trainer):
    """The heart beats in a thread of its own, so a long step is not taken for a dead trainer."""
    trainer(step_seconds=1.5)
    job = look_until(launch(max_steps=1), seconds=20)
    assert (job.status, job.restarts) == ("succeeded", 0)
