"""`manage.py serve` as a person runs it, on a data folder of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rftstudio.ops import processes
from tests.services.conftest import ROOT, ask, clean_env, manage, wait_for

PROGRAMS = ("broker", "web", "worker-rollouts", "worker-training", "beat")


class Served:
    """One running `serve`."""

    def __init__(self, var_dir: Path) -> None:
        self.var_dir = var_dir
        self.env = clean_env(STUDIO_VAR_DIR=str(var_dir), STUDIO_PORT=str(_free_port()))
        self._out = var_dir.parent / f"serve-{time.monotonic_ns()}.out"
        with self._out.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve"], cwd=ROOT, env=self.env, stdout=out, stderr=out
            )
        self.supervisor = processes.process_identity(self.process.pid)
        said = wait_for(lambda: re.search(r"Studio is at (\S+)", self.said()), 120, f"serve: {self.said()}")
        self.url = said[1]
        wait_for(lambda: all(self.one(name) for name in PROGRAMS), 60, "all programs")

    def said(self) -> str:
        return self._out.read_text()

    def one(self, name: str) -> processes.Identity | None:
        return processes.pid_file_read(self.var_dir / "run" / f"{name}.pid")

    def everyone(self) -> list[processes.Identity]:
        """All processes that bear this supervisor's name, children of children included."""
        mark = f"{processes.SUPERVISOR_PID}={self.supervisor['pid']}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(processes.process_identity(int(folder.name)))
            except OSError:
                continue
        return found

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=90)


def _free_port() -> int:
    import socket

    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


@pytest.fixture
def served(tmp_path):
    one = Served(tmp_path / "var")
    yield one
    if one.process.poll() is None:
        one.process.kill()
        one.process.wait()
    wait_for(lambda: not any(map(processes.is_alive, one.everyone())), 20, "the group to be gone")


def test_serve_answers_survives_kills_and_leaves_nothing_behind(served, tmp_path):
    assert ask(f"{served.url}healthz")[0] == 200

    # A killed program comes back, and its pool children do not stay.
    for name in ("worker-training", "web", "broker"):
        before = served.one(name)
        os.kill(before["pid"], signal.SIGKILL)
        wait_for(lambda name=name, before=before: (served.one(name) or before) != before, 60, f"{name} to be back")
    wait_for(lambda: ask(f"{served.url}healthz")[0] == 200, 60, "healthz")
    assert "worker-training ended with SIGKILL" in served.said()

    # A second group on the same folder is refused, in words.
    second = subprocess.run(
        [sys.executable, "manage.py", "serve"], cwd=ROOT, env=served.env, capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert f"already runs on {served.var_dir} (process {served.process.pid})" in second.stderr

    # Ctrl-C ends the programs and the detached processes that were started in the group's name.
    env = {**served.env, processes.SUPERVISOR_PID: str(served.supervisor["pid"])}
    env[processes.SUPERVISOR_TICKS] = str(served.supervisor["start_ticks"])
    stay = [sys.executable, "-S", "-c", "import time; time.sleep(300)"]
    noted, unnoted = (
        processes.spawn_detached(stay, cwd=tmp_path, log_path=tmp_path / "detached.log", env=env) for _ in range(2)
    )
    processes.pid_file_write(served.var_dir / "run" / "trainer-x.pid", noted)
    everyone = served.everyone()
    assert len(everyone) >= len(PROGRAMS) + 2
    assert served.end() == 0
    assert not any(map(processes.is_alive, [*everyone, noted, unnoted]))
    assert not list((served.var_dir / "run").glob("*.pid"))
    assert "Traceback" not in served.said()


def test_serve_killed_with_9_leaves_nothing_and_starts_again(served, tmp_path):
    secret = (served.var_dir / "secret_key").read_text()
    everyone = served.everyone()
    served.process.kill()
    served.process.wait()
    wait_for(lambda: not any(map(processes.is_alive, everyone)), 20, "the programs to end")
    again = Served(served.var_dir)
    try:
        assert ask(f"{again.url}healthz")[0] == 200
        assert (again.var_dir / "secret_key").read_text() == secret
    finally:
        assert again.end() == 0


def test_group_inside_another_program(tmp_path):
    """As the demo uses it."""
    script = (
        "import django, os; django.setup()\n"
        "from rftstudio.ops.supervisor import Group\n"
        "import urllib.request\n"
        "with Group(echo=print) as group:\n"
        "    print(urllib.request.urlopen(group.address + 'healthz').read().decode())\n"
        "    print('beat', group.pid('beat') is not None)\n"
        "assert 'STUDIO_SUPERVISOR_PID' not in os.environ\n"
    )
    env = clean_env(STUDIO_VAR_DIR=str(tmp_path / "var"), DJANGO_SETTINGS_MODULE="rftstudio.settings.local")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"broker": "ok"' in done.stdout
    assert "beat True" in done.stdout


def test_serve_without_a_broker_server_uses_files(tmp_path):
    """Where there is neither a server nor the wheel (Windows, musl), tasks still travel."""
    env = clean_env(STUDIO_VAR_DIR=str(tmp_path / "var"), CELERY_BROKER_URL="filesystem://")
    manage("migrate", "--verbosity", "0", env=env)
    marks = tmp_path / "marks"
    marks.mkdir()
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "rftstudio", "worker", "-c", "1", "-I", "tests.services.probe"],
        cwd=ROOT,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        queue = f"from tests.services.probe import mark; mark.delay({str(marks)!r}, 'by-file')"
        manage("shell", "-c", queue, env=env)
        wait_for((marks / "by-file").exists, 30, "the task")
    finally:
        worker.terminate()
        worker.wait(timeout=30)
