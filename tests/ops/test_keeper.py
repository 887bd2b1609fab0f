"""The keeper with programs of one line."""

import os
import signal
import sys
from pathlib import Path

import pytest

from rftstudio.ops import processes
from rftstudio.ops.keeper import Keeper, Program
from tests.ops.test_processes import wait_for

STAY = (sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(60)")


@pytest.fixture
def said():
    return []


@pytest.fixture
def keeper(tmp_path, said):
    made = Keeper(var_dir=tmp_path, cwd=tmp_path, env=os.environ, echo=said.append)
    yield made
    made.stop()


def test_program_runs_in_its_own_group_with_pid_file_and_log(keeper, tmp_path):
    keeper.start(Program("one", STAY))
    pid = keeper.pid("one")
    assert os.getpgid(pid) == pid
    assert processes.pid_file_read(tmp_path / "run" / "one.pid")["pid"] == pid
    assert wait_for(lambda: (tmp_path / "log" / "one.log").read_text() == "up\n")


def test_dead_program_is_started_again_at_once_then_later(keeper, said):
    keeper.start(Program("one", STAY))
    first = keeper.pid("one")
    os.kill(first, signal.SIGKILL)
    assert wait_for(lambda: keeper.pid("one") not in (None, first))
    assert "one ended with SIGKILL; starting it again now" in said[0]
    os.kill(keeper.pid("one"), signal.SIGKILL)
    assert wait_for(lambda: len(said) == 2)
    assert "again in 1 s" in said[1]


def test_program_that_is_not_there_is_tried_again(keeper, said):
    keeper.start(Program("one", ("/no/such/program",)))
    assert wait_for(lambda: len(said) >= 2)
    assert "exit status 1" in said[0]


def test_children_of_a_killed_program_die_with_it(keeper, tmp_path):
    script = (
        "import subprocess, sys, time; c = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)']);"
        "open('child', 'w').write(str(c.pid)); time.sleep(60)"
    )
    keeper.start(Program("one", (sys.executable, "-S", "-c", script)))
    assert wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    child = processes.process_identity(int((tmp_path / "child").read_text()))
    os.kill(keeper.pid("one"), signal.SIGKILL)
    assert wait_for(lambda: not processes.is_alive(child))


def test_stop_ends_the_deaf_too_and_the_ground_last(tmp_path):
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    keeper = Keeper(var_dir=tmp_path, cwd=tmp_path, env=os.environ, echo=lambda line: None)
    keeper.start(Program("ground", STAY, is_ground=True))
    keeper.start(Program("deaf", (sys.executable, "-S", "-c", deaf), grace=0.3))
    assert wait_for(lambda: (tmp_path / "log" / "deaf.log").read_text() == "up\n")
    ground, other = (processes.process_identity(keeper.pid(name)) for name in ("ground", "deaf"))
    seen = []
    keeper.stop(between=lambda: seen.append((processes.is_alive(ground), processes.is_alive(other))))
    assert seen == [(True, False)]
    assert not processes.is_alive(ground)
    assert not list((tmp_path / "run").glob("*.pid"))


def test_programs_end_when_their_supervisor_is_killed(tmp_path):
    root = Path(__file__).parents[2]
    script = (
        f"import sys, os, time; sys.path.insert(0, {str(root)!r})\n"
        "from pathlib import Path\nfrom rftstudio.ops.keeper import Keeper, Program\n"
        "k = Keeper(var_dir=Path('.'), cwd=Path('.'), env=os.environ, echo=print)\n"
        f"k.start(Program('one', {STAY!r}))\ntime.sleep(60)\n"
    )
    supervisor = processes.spawn_detached([sys.executable, "-c", script], cwd=tmp_path, log_path=tmp_path / "log.txt")
    note = tmp_path / "run" / "one.pid"
    assert wait_for(note.exists)
    program = processes.pid_file_read(note)
    os.kill(supervisor["pid"], signal.SIGKILL)
    assert wait_for(lambda: not processes.is_alive(program))


def test_long_log_is_put_aside_at_the_next_start(keeper, tmp_path, monkeypatch):
    monkeypatch.setattr("rftstudio.ops.keeper.LOG_LIMIT_BYTES", 10)
    log = tmp_path / "log" / "one.log"
    log.write_text("x" * 11)
    keeper.start(Program("one", STAY))
    assert wait_for(lambda: log.read_text() == "up\n")
    assert (tmp_path / "log" / "one.log.1").read_text() == "x" * 11
