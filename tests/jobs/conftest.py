"""A trainer that keeps the contract, a baseline to launch from, and a watch that no process is left behind."""

import json
import sys
import time
from pathlib import Path

import pytest

from jobs.models import Job
from jobs.supervision import jobs_sync
from rftstudio.ops import processes
from tests.factories.studio import ready_baseline_of

FAKE = Path(__file__).parents[1] / "fakes/fake_trainer.py"
SMALL = {"max_steps": 6, "batch_size": 2, "group_size": 3, "eval_interval": 2, "eval_samples": 1}


@pytest.fixture
def trainer(settings, tmp_path, monkeypatch):
    """`trainer(step_seconds=…, crash_at=[…])` scripts the fake trainer; every one of this test is ended afterwards."""
    settings.RUNS_DIR = tmp_path / "runs"
    settings.VAR_DIR = tmp_path
    settings.STUDIO_TRAINER_COMMAND = [sys.executable, str(FAKE)]

    def script(**told):
        monkeypatch.setenv("FAKE_TRAINER", json.dumps(told))

    script()
    yield script
    for path in (tmp_path / "runs").glob("*/process.json"):
        processes.end(processes.pid_file_read(path), grace=0, group=True)


@pytest.fixture
def ready_baseline(member):
    return ready_baseline_of(member)


def look_until(job: Job, *, seconds: float = 30.0, status: str | None = None, until=None) -> Job:
    """Look after jobs as the beat does, until the job has that status (or has ended)."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        jobs_sync()
        job.refresh_from_db()
        if until is not None:
            if until(job):
                return job
        elif job.status == status or (status is None and not job.is_active):
            return job
        time.sleep(0.03)
    raise AssertionError(f"still {job.status} after {seconds} s: {job.status_note}")


def trainer_of(job: Job) -> dict:
    return processes.pid_file_read(Path(job.run_dir) / "process.json")
