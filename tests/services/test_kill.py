"""A really training job, and everything about it killed with signal 9: no rollout is lost or doubled."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.services.conftest import ROOT, wait_for
from tests.services.served import Served

pytestmark = pytest.mark.training


def desk(served: Served, *words: str) -> dict:
    env = {**served.env, "DJANGO_SETTINGS_MODULE": "rftstudio.settings.local"}
    argv = [sys.executable, "-m", "tests.services.desk", *words]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def training(served: Served, job: str, at_least: int) -> dict:
    """The job once it has brought home that many train steps and its trainer lives."""

    def there():
        seen = desk(served, "look", job)
        assert seen["status"] in {"validating_files", "queued", "running"}, seen
        return seen if seen["done_steps"] >= at_least and seen["trainer"] else None

    return wait_for(there, 180, "train steps")


def ended(served: Served, job: str) -> dict:
    def there():
        seen = desk(served, "look", job)
        return seen if seen["status"] in {"succeeded", "failed", "cancelled"} else None

    return wait_for(there, 240, "the job to end")


def check_whole(seen: dict) -> None:
    assert seen["status"] == "succeeded", seen
    assert seen["doubled"] == 0
    assert seen["per_step"] == [32]
    assert seen["stored"] == seen["result"]["rollouts"] == 24 * 32
    for fault in ("without_steps", "without_reason", "without_rewards", "calls_without_result"):
        assert seen[fault] == 0, fault


def test_job_ends_true_after_its_worker_and_its_trainer_were_killed(served):
    job = desk(served, "launch")["job"]
    seen = training(served, job, at_least=2)
    os.kill(served.one("worker-training")["pid"], signal.SIGKILL)
    os.kill(seen["trainer"], signal.SIGKILL)
    seen = training(served, job, at_least=9)
    os.kill(served.one("worker-training")["pid"], signal.SIGKILL)
    seen = ended(served, job)
    check_whole(seen)
    assert any("attempt 2" in line for line in seen["events"]), seen["events"]


def test_job_goes_on_after_all_of_studio_was_killed_and_served_again(served, tmp_path):
    job = desk(served, "launch")["job"]
    seen = training(served, job, at_least=2)
    for pid in (seen["trainer"], served.one("worker-training")["pid"], served.process.pid):
        os.kill(pid, signal.SIGKILL)
    served.process.wait()
    again = Served(served.var_dir)
    try:
        check_whole(ended(again, job))
    finally:
        assert again.end() == 0
