"""Real processes, each living for a moment."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rftstudio.ops import processes

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]


def wait_for(condition, seconds: float = 10.0) -> bool:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


@pytest.fixture
def sleeper(tmp_path):
    identity = processes.spawn_detached(SLEEPER, cwd=tmp_path, log_path=tmp_path / "log")
    yield identity
    processes.end(identity, grace=1)


def test_identity_of_this_process_is_alive():
    assert processes.is_alive(processes.process_identity(os.getpid()))


def test_identity_of_nobody_is_refused():
    with pytest.raises(ProcessLookupError, match="no process"):
        processes.process_identity(2**22 + 1)


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot_id": "another boot"}])
def test_is_alive_with_a_reused_pid_or_another_boot_is_false(change):
    assert not processes.is_alive({**processes.process_identity(os.getpid()), **change})


def test_is_alive_of_nothing_is_false():
    assert not processes.is_alive(None)
    assert not processes.is_alive({})


def test_is_alive_of_a_zombie_is_false():
    child = subprocess.Popen(SLEEPER)
    identity = processes.process_identity(child.pid)
    child.kill()
    assert wait_for(lambda: not processes.is_alive(identity))  # not yet waited for
    child.wait()


def test_spawn_detached_is_nobodys_child_and_has_its_own_session(sleeper):
    pid = sleeper["pid"]
    assert processes.is_alive(sleeper)
    assert os.getsid(pid) == pid
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert parent != os.getpid()


def test_spawn_detached_appends_output_and_gives_the_environment_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "x")
    monkeypatch.setenv(processes.SUPERVISOR_PID, "7")
    log = tmp_path / "log"
    log.write_text("before\n")
    script = "import os; print(sorted(k for k in os.environ if 'S' == k[0]))"
    identity = processes.spawn_detached(
        [sys.executable, "-S", "-c", script], cwd=tmp_path, log_path=log, env={"SOME": "1"}
    )
    assert wait_for(lambda: not processes.is_alive(identity))
    assert log.read_text() == "before\n['SOME', 'STUDIO_SUPERVISOR_PID']\n"


def test_spawn_detached_of_a_missing_program_says_which(tmp_path):
    with pytest.raises(OSError, match=r"no-such-program could not be started: FileNotFoundError"):
        processes.spawn_detached(["no-such-program"], cwd=tmp_path, log_path=tmp_path / "log")


def test_end_is_gentle_first(sleeper):
    assert processes.end(sleeper, grace=10) is False
    assert not processes.is_alive(sleeper)
    assert processes.end(sleeper) is False  # twice is harmless


def test_end_of_a_deaf_process_kills_it(tmp_path):
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    log = tmp_path / "log"
    identity = processes.spawn_detached([sys.executable, "-S", "-c", script], cwd=tmp_path, log_path=log)
    assert wait_for(lambda: "deaf" in log.read_text())
    assert processes.end(identity, grace=0.2) is True
    assert wait_for(lambda: not processes.is_alive(identity))


def test_pid_file_comes_back_and_a_broken_one_is_nobody(tmp_path, sleeper):
    path = tmp_path / "run" / "trainer.pid"
    processes.pid_file_write(path, sleeper)
    assert processes.pid_file_read(path) == sleeper
    path.write_text("12")
    assert processes.pid_file_read(path) is None
    assert processes.pid_file_read(tmp_path / "none.pid") is None


def test_supervisor_is_gone_only_when_one_is_named_and_dead(monkeypatch):
    monkeypatch.delenv(processes.SUPERVISOR_PID, raising=False)
    assert not processes.supervisor_is_gone()
    for name, value in processes.supervisor_env().items():
        monkeypatch.setenv(name, value)
    assert not processes.supervisor_is_gone()
    monkeypatch.setenv(processes.SUPERVISOR_TICKS, "1")
    assert processes.supervisor_is_gone()


def test_program_that_lost_the_signal_follows_its_supervisor_all_the_same():
    supervisor = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)"])
    who = processes.process_identity(supervisor.pid)
    env = {**os.environ, processes.SUPERVISOR_PID: str(who["pid"]), processes.SUPERVISOR_TICKS: str(who["start_ticks"])}
    script = (
        "import signal, time; from rftstudio.ops import processes; signal.signal(signal.SIGQUIT, signal.SIG_IGN); "
        "processes.follow_supervisor(look=0.05, grace=0.05); print('up', flush=True); time.sleep(300)"
    )
    program = subprocess.Popen([sys.executable, "-c", script], env=env, start_new_session=True, stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline() == b"up\n"
        assert program.poll() is None
        supervisor.kill()
        supervisor.wait()
        assert program.wait(timeout=30) == -signal.SIGKILL
    finally:
        for one in (supervisor, program):
            one.kill()
            one.wait()
