"""No snippet gets out, as root and as nobody; what hangs costs only its own time."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from graders.sandbox import active_layers, shared
from graders.sandbox_process import PythonFailed
from tests.graders.hostile import HARMS, QUICK, READS, breach_of, harm_source, read_source

ROOT = Path(__file__).parents[2]
NOBODY = 65534
pytestmark = pytest.mark.skipif(not active_layers()["is_available"], reason="no seccomp here")


def test_there_are_enough_snippets():
    assert len(READS) + len(HARMS) >= 60


@pytest.mark.parametrize("source", [*map(read_source, READS.values()), *map(harm_source, HARMS.values())])
def test_snippet_is_python(source):
    compile(source, "snippet", "exec")


@pytest.mark.parametrize("name", READS)
def test_hostile_snippet_reaches_nothing(name):
    assert breach_of(shared(), name) == ""


@pytest.mark.parametrize("name", HARMS)
def test_harmful_snippet_ends_within_its_limit(name):
    started = time.monotonic()
    with suppress(PythonFailed):
        assert 0.0 <= shared().run("hostile", harm_source(HARMS[name]), {}, {}, QUICK).value <= 1.0
    assert time.monotonic() - started < 8
    assert shared().run("hostile", "def grade(s, i): return 1", {}, {}, QUICK).value == 1.0


def test_endless_loop_costs_no_one_else_time():
    pool = shared()
    steady = "def grade(s, i): return 0.5"
    pool.run("other", steady, {}, {}, QUICK)
    loop = threading.Thread(
        target=lambda: pytest.raises(PythonFailed, pool.run, "t", harm_source("while True: pass"), {}, {}, QUICK)
    )
    loop.start()
    slowest = 0.0
    while loop.is_alive():
        started = time.monotonic()
        assert pool.run("other", steady, {}, {}, QUICK).value == 0.5
        slowest = max(slowest, time.monotonic() - started)
    assert slowest < 0.9


def as_nobody(*arguments: str) -> list[str]:
    """A command run by user nobody, who may read the interpreter wherever it lives but has no other power."""
    powers = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *powers, sys.executable, *arguments]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else; otherwise all of this ran so already")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv of util-linux")
def test_hostile_snippets_reach_nothing_as_an_unprivileged_user():
    command = as_nobody("-B", "-m", "tests.graders.as_nobody")
    found = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, timeout=180)
    assert found.returncode == 0, found.stderr[-2000:]
    answer = json.loads(found.stdout)
    assert answer["uid"] == NOBODY
    assert answer["layers"]["is_available"] is True
    assert answer["breaches"] == []
    assert answer["tried"] == len(READS)
