"""A really training job, and everything about it killed with signal 9: no rollout is lost or doubled."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.services.conftest import ROOT, data_folder_in, serving, wait_for
from tests.services.served import Served

pytestmark = pytest.mark.training


class Desk:
    """The example beside a running Studio, in a process that stays: loading Django for each look costs seconds."""

    def __init__(self, served: Served) -> None:
        env = {**served.env, "DJANGO_SETTINGS_MODULE": "rftstudio.settings.local"}
        argv = [sys.executable, "-m", "tests.services.desk"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def ask(self, *words: str) -> dict:
        self._process.stdin.write(" ".join(words) + "\n")
        line = self._process.stdout.readline()
        assert line, "the desk's process ended; its error stands above"
        return json.loads(line)

    def training(self, job: str, *, at_least: int) -> dict:
        """The job once it has brought home that many train steps and its trainer lives."""

        def there():
            seen = self.ask("look", job)
            assert seen["status"] in {"validating_files", "queued", "running"}, seen
            return seen if seen["done_steps"] >= at_least and seen["trainer"] else None

        return wait_for(there, 180, "train steps")

    def ended(self, job: str) -> dict:
        def there():
            seen = self.ask("look", job)
            return seen if seen["status"] in {"succeeded", "failed", "cancelled"} else None

        return wait_for(there, 240, "the job to end")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One Studio for both tests: the second begins where the first has left it, all of it killed and up again."""
    with serving(data_folder_in(tmp_path_factory.mktemp("kill"))) as one:
        yield one


@pytest.fixture(scope="module")
def desk(served):
    one = Desk(served)
    yield one
    one.close()


def check_whole(seen: dict) -> None:
    assert seen["status"] == "succeeded", seen
    assert seen["doubled"] == 0
    assert seen["per_step"] == [32]
    assert seen["stored"] == seen["result"]["rollouts"] == 24 * 32
    for fault in ("without_steps", "without_reason", "without_rewards", "calls_without_result"):
        assert seen[fault] == 0, fault


def test_job_ends_true_after_every_program_of_studio_was_killed_under_it(served, desk):
    job = desk.ask("launch")["job"]
    seen = desk.training(job, at_least=2)
    for name in ("web", "beat", "broker", "worker-training"):
        os.kill(served.one(name)["pid"], signal.SIGKILL)
    os.kill(seen["trainer"], signal.SIGKILL)
    seen = desk.training(job, at_least=9)
    os.kill(served.one("worker-training")["pid"], signal.SIGKILL)
    seen = desk.ended(job)
    check_whole(seen)
    assert any("attempt 2" in line for line in seen["events"]), seen["events"]


def test_job_goes_on_after_all_of_studio_was_killed_and_served_again(served, desk):
    job = desk.ask("launch")["job"]
    seen = desk.training(job, at_least=2)
    for pid in (seen["trainer"], served.one("worker-training")["pid"], served.process.pid):
        os.kill(pid, signal.SIGKILL)
    served.process.wait()
    again = Served(served.var_dir)
    try:
        check_whole(desk.ended(job))
    finally:
        assert again.end() == 0
