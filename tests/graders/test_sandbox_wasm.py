"""The second choice: Python in WebAssembly. The same attacks, limits and answers as in the locked processes."""

import importlib.util
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from graders import sandbox_wasm
from graders.clients import GraderClients
from graders.failures import SandboxUnavailable
from graders.grading import compile_grader
from graders.sandbox import Sandbox
from graders.sandbox_process import PythonFailed, PythonLimits
from graders.sandbox_wasm import WasmHome
from graders.types import Sample
from tests.graders.hostile import ALL_READS, HARMS, READS, harm_source
from tests.graders.test_sandbox import is_running

ROOT = Path(__file__).parents[2]
LIMITS = PythonLimits(seconds=10)
QUICK = PythonLimits(seconds=1.0, memory_bytes=256 << 20)
pytestmark = pytest.mark.skipif(importlib.util.find_spec("wasmtime") is None, reason="an optional part")


@pytest.fixture(scope="module")
def pool():
    made = Sandbox(max_workers=2, homes=(WasmHome,))
    yield made
    made.close()


def test_walls_are_proven_and_named(pool):
    layers = pool.active_layers()
    assert (layers["is_available"], layers["wasm"], layers["self_test"]) == (True, True, "passed")


#: Calls that answer in the guest and reach nothing of ours: "/" of a world without files, a chmod that does nothing,
#: the folder of the guest's own library, and the name "(none)".
HOLLOW = {"working folder", "chmod", "other descriptors", "name of the machine"}


def test_no_snippet_reaches_anything(pool):
    before, found = Path("/etc/passwd").stat(), set()
    for name, attack in READS.items():
        with suppress(PythonFailed):
            if pool.run("hostile", ALL_READS, {}, {"attack": attack}, LIMITS).value:
                found.add(name)
    assert found <= HOLLOW
    assert Path("/etc/passwd").stat().st_mode == before.st_mode


@pytest.mark.parametrize("harm", ["endless loop", "growing list", "endless recursion", "exit", "garbage reply"])
def test_harmful_snippet_ends_alone(pool, harm):
    with suppress(PythonFailed):
        assert 0.0 <= pool.run("hostile", harm_source(HARMS[harm]), {}, {}, QUICK).value <= 1.0
    assert pool.run("hostile", "def grade(s, i): return 1", {}, {}, LIMITS).value == 1.0


def test_grader_answers_as_in_a_locked_process(pool):
    source = (
        "import re, json, difflib, statistics\n"
        "calls = []\n"
        "def grade(sample, item):\n"
        "    calls.append(1)\n"
        "    print('call', len(calls))\n"
        "    return difflib.SequenceMatcher(None, sample['output_text'], item['answer']).ratio()\n"
        "def grade_steps(sample, item):\n"
        "    return [0.5, None]\n"
    )
    clients = GraderClients(sandbox=pool)
    compiled = compile_grader({"type": "python", "source": source}, clients)
    grades = [compiled.grade({"answer": "145"}, Sample(output_text="145.0")) for _ in range(2)]
    assert [grade.reward for grade in grades] == [0.75, 0.75]
    assert grades[1].details == "Printed: call 2"
    assert grades[1].step_rewards == [0.5, None]
    matches = {"type": "regex", "input": "{{ sample.output_text }}", "pattern": "^14[0-9]"}
    assert compile_grader(matches, clients).grade({}, Sample(output_text="145")).reward == 1.0


def test_error_names_the_line_and_an_absent_module_the_reason(pool):
    with pytest.raises(PythonFailed) as failure:
        pool.run("a", "def grade(s, i):\n    return 1 / 0", {}, {}, LIMITS)
    assert (failure.value.line, failure.value.kind) == (2, "ZeroDivisionError")
    with pytest.raises(PythonFailed, match=r"module numpy is not available .* WebAssembly"):
        pool.run("a", "import numpy\ndef grade(s, i): return 1", {}, {}, LIMITS)


def test_another_interpreter_than_the_one_that_was_tried_is_refused(monkeypatch):
    monkeypatch.setattr(sandbox_wasm, "RUNTIME_SHA256", "0" * 64)
    with pytest.raises(SandboxUnavailable, match="not the file that was tried"):
        WasmHome()


def test_missing_part_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(sandbox_wasm.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SandboxUnavailable, match=r"requirements/wasm.txt"):
        WasmHome()


def test_worker_ends_when_studio_is_killed():
    script = (
        "import os, threading\nfrom graders.sandbox_wasm import WasmHome\nfrom graders.sandbox_process import *\n"
        "limits = PythonLimits(60)\nworker = Worker(WasmHome(), (), limits)\n"
        "worker.load('def grade(s, i):\\n    while True: pass', limits)\nprint(worker.pid, flush=True)\n"
        "threading.Timer(0.3, lambda: os.kill(os.getpid(), 9)).start()\nworker.call({}, {}, limits)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert ended.returncode == -9, ended.stderr
    pid, deadline = int(ended.stdout), time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_running(pid)
    assert os.getpid() != pid
