"""The pool: who shares a process, what a crash or a fork leaves behind."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graders import sandbox, sandbox_lock, sandbox_process, sandbox_proof
from graders.clients import GraderClients
from graders.failures import SandboxUnavailable
from graders.grading import compile_grader
from graders.sandbox import Sandbox, active_layers
from graders.sandbox_process import PythonFailed, PythonLimits
from graders.types import Sample

ROOT = Path(__file__).parents[2]
LIMITS = PythonLimits(seconds=5)
COUNT = "seen = []\ndef grade(sample, item):\n    seen.append(1)\n    return len(seen)"
pytestmark = pytest.mark.skipif(not active_layers()["is_available"], reason="no seccomp here")


@pytest.fixture
def pool():
    made = Sandbox(max_workers=2)
    yield made
    made.close()


def test_worker_stays_warm_by_owner_and_source_and_is_never_shared(pool):
    assert [pool.run("team-a", COUNT, {}, {}, LIMITS).value for _ in range(3)] == [1, 2, 3]
    assert pool.run("team-b", COUNT, {}, {}, LIMITS).value == 1
    assert pool.run("team-a", COUNT + "\n", {}, {}, LIMITS).value == 1


def test_forget_ends_idle_workers(pool):
    pool.run("a", COUNT, {}, {}, LIMITS)
    pool.forget("a", COUNT)
    assert pool.run("a", COUNT, {}, {}, LIMITS).value == 1


def test_more_threads_than_workers_wait_their_turn(pool):
    source = "import time\ndef grade(sample, item):\n    time.sleep(0.02)\n    return item['n']"
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: pool.run("a", source, {}, {"n": n}, LIMITS).value, range(40)))
    assert answers == list(range(40))


def test_many_sources_evict_each_other(pool):
    for n in range(8):
        assert pool.run("a", f"def grade(s, i): return {n}", {}, {}, LIMITS).value == n


def test_worker_that_died_while_idle_is_replaced(pool):
    delayed = "import signal, os\ndef grade(s, i):\n    return 1.0"
    pool.run("a", delayed, {}, {}, LIMITS)
    worker = next(iter(pool._idle.values()))[0]
    os.kill(worker.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert pool.run("a", delayed, {}, {}, LIMITS).value == 1.0


def test_home_that_died_is_started_again(pool):
    pool.run("a", COUNT, {}, {}, LIMITS)
    pool._home._process.kill()
    pool._home._process.wait()
    assert pool.run("a", COUNT, {}, {}, LIMITS).value == 1


def no_seccomp():
    raise SandboxUnavailable("This system has no seccomp.")


def not_installed():
    raise SandboxUnavailable("The WebAssembly sandbox is not installed.")


def test_zygote_asks_for_seccomp(monkeypatch):
    monkeypatch.setattr(sandbox_lock, "is_supported", lambda: False)
    with pytest.raises(SandboxUnavailable, match="no seccomp"):
        sandbox_process.Zygote()


def test_where_nothing_confines_python_it_is_refused_and_the_rest_goes_on():
    closed = Sandbox(homes=(no_seccomp, not_installed))
    with pytest.raises(SandboxUnavailable, match=r"no seccomp. The WebAssembly sandbox is not installed"):
        closed.run("a", COUNT, {}, {}, LIMITS)
    assert closed.active_layers()["is_available"] is False
    clients = GraderClients(sandbox=closed)
    refused = compile_grader({"type": "python", "source": COUNT}, clients).grade({}, Sample())
    assert (refused.reward, refused.errors["python_grader_server_error"]) == (None, True)
    exact = {"type": "string_check", "operation": "eq", "input": "a", "reference": "a"}
    assert compile_grader(exact, clients).grade({}, Sample()).reward == 1.0


def test_second_choice_is_taken_where_the_first_is_not_there():
    second = Sandbox(homes=(no_seccomp, sandbox_process.Zygote))
    assert second.run("a", COUNT, {}, {}, LIMITS).value == 1
    second.close()


def test_self_test_that_reaches_something_refuses_all_python(monkeypatch):
    leaky = "def grade(sample, item):\n    print('open was possible')\n    return 1"
    monkeypatch.setattr(sandbox, "PROOF", leaky)
    broken = Sandbox(homes=(sandbox_process.Zygote, not_installed))
    with pytest.raises(SandboxUnavailable, match="does not hold: open was possible"):
        broken.run("a", COUNT, {}, {}, LIMITS)
    broken.close()


def test_proof_finds_what_an_open_process_can_do(monkeypatch):
    """The same text outside of any walls: a self-test that could not fail would prove nothing."""
    monkeypatch.setattr(os, "fork", lambda: 1)
    monkeypatch.setattr(os, "execv", lambda *_: None)
    monkeypatch.setattr(os, "kill", lambda *_: None)
    said: list[str] = []
    space = {"print": lambda *words: said.append(" ".join(words))}
    exec(sandbox_proof.PROOF.replace("libc.fork()", "libc.getpid()"), space)
    assert space["grade"]({}, sandbox_proof.proof_item()) == len(said)
    for word in ("open /", "stat /", "list /", "environment", "fork", "exec", "kill", "connect", "socket", "clone"):
        assert any(line.startswith(word) for line in said), word


def test_active_layers_name_what_stands():
    layers = active_layers()
    assert layers["seccomp"] is True
    assert layers["self_test"] == "passed"
    assert layers["landlock"] == sandbox_lock.landlock_abi()


def test_a_forked_process_gets_its_own_zygote():
    script = (
        "import os, sys\nfrom graders.sandbox import shared\nfrom graders.sandbox_process import PythonLimits\n"
        "run = lambda: shared().run('a', 'def grade(s, i): return 1', {}, {}, PythonLimits(5)).value\n"
        "assert run() == 1\npid = os.fork()\n"
        "if pid == 0:\n    os._exit(0 if run() == 1 else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0\nassert run() == 1\nprint('fine')"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "fine", found.stderr


@pytest.mark.parametrize("ending", ["exit", "kill"])
def test_nothing_is_left_when_the_process_ends(ending):
    script = (
        "import sys, time\nfrom graders.sandbox import shared\nfrom graders.sandbox_process import PythonLimits\n"
        "pool = shared()\npool.run('a', 'def grade(s, i): return 1', {}, {}, PythonLimits(5))\n"
        "print(pool._home._process.pid, next(iter(pool._idle.values()))[0].pid, flush=True)\n"
        + ("time.sleep(60)" if ending == "kill" else "")
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in process.stdout.readline().split()]
    if ending == "kill":
        process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(is_running(pid) for pid in pids):
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in pids)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_module_text_that_fails_is_told_with_its_line(pool):
    with pytest.raises(PythonFailed) as failure:
        pool.run("a", "x = 1\ny = x / 0\ndef grade(s, i): return 1", {}, {}, LIMITS)
    assert failure.value.line == 2
    assert "ZeroDivisionError" in failure.value.details
