"""`manage.py serve` as a person runs it, on a data folder of its own."""

import os
import signal
import subprocess
import sys

from rftstudio.ops import processes
from tests.services.conftest import ROOT, ask, clean_env, manage, wait_for
from tests.services.served import PROGRAMS, Served


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
    wait_for(lambda: not any(map(processes.is_alive, everyone)), 60, "the programs to end")
    again = Served(served.var_dir)
    try:
        assert ask(f"{again.url}healthz")[0] == 200
        assert (again.var_dir / "secret_key").read_text() == secret
    finally:
        assert again.end() == 0


def test_group_inside_another_program(tmp_path, data_folder):
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
    env = clean_env(STUDIO_VAR_DIR=str(data_folder), DJANGO_SETTINGS_MODULE="rftstudio.settings.local")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"broker": "ok"' in done.stdout
    assert "beat True" in done.stdout


def test_serve_without_a_broker_server_uses_files(tmp_path, data_folder):
    """Where there is neither a server nor the wheel (Windows, musl), tasks still travel."""
    env = clean_env(STUDIO_VAR_DIR=str(data_folder), CELERY_BROKER_URL="filesystem://")
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
        wait_for((marks / "by-file").exists, 60, "the task")
    finally:
        worker.terminate()
        worker.wait(timeout=30)
