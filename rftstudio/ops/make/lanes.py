"""Runs the test lanes one after another and says how each went: `python rftstudio/ops/make/lanes.py [lane…]`.

A lane that fails does not keep the next from running; the exit status is 1 when any failed. A lane without tests passes.
The browser lane mostly waits, so it runs beside the lanes that come after it; what it printed is shown when it ends.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PYTHON = sys.executable
QUICK = "not browser and not services and not training"
JOBS = os.environ.get("JOBS") or "2"
PYTEST = [PYTHON, "-m", "pytest", "-q"]
# Files in the order that tests/conftest.py gives them: the long ones first, so that none is left alone at the end.
PARALLEL = ["-n", JOBS, "--dist", "loadfile", "--no-loadscope-reorder"]
NO_TESTS = 5
ALONE = {"fast", "postgres"}  # these use both cores by themselves


def files_that_mark(mark: str) -> list[str]:
    """The test files that name the mark, and all below a conftest.py that does. Reading every test takes ten seconds."""
    named = [path for path in sorted(ROOT.glob("tests/**/*.py")) if f"mark.{mark}" in path.read_text()]
    tests = [path.parent if path.name == "conftest.py" else path for path in named]
    return [str(path.relative_to(ROOT)) for path in tests if path.is_dir() or path.name.startswith("test_")]


LANES: dict[str, tuple[str, list[str]]] = {
    "fast": ("without servers, browser or torch, on SQLite", [*PYTEST, "-m", QUICK, *PARALLEL]),
    "postgres": (
        "those that ask the database, on a real PostgreSQL",
        [PYTHON, "-m", "tests.servers", *PYTEST, "-m", QUICK, *PARALLEL],
    ),
    "services": (
        "real servers and processes, production settings",
        [*PYTEST, *files_that_mark("services"), "-m", "services and not training", "--durations=5"],
    ),
    "browser": ("Chromium", [*PYTEST, "tests/browser", "-m", "browser and not training"]),
    "training": ("TRL, really trained", [*PYTEST, *files_that_mark("training"), "-m", "training", "--durations=5"]),
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(LANES)
    if unknown:
        print(f"lanes: {', '.join(sorted(unknown))} is none of {', '.join(LANES)}")
        return 2
    wanted = [name for name in LANES if name in (names or LANES)]
    beside = Beside("browser") if "browser" in wanted and len(wanted) > 1 else None
    results = []
    for name in wanted:
        if beside and name == beside.name:
            continue
        if beside and name not in ALONE:
            beside.start()
        results.append(run(name))
    if beside:
        results.append(beside.finish())
    print("\nlanes:")
    for name, code, seconds in results:
        print(f"  {name:<10} {'passed' if code == 0 else 'FAILED'}   {seconds:6.1f} s")
    return 1 if any(code for _, code, _ in results) else 0


def run(name: str) -> tuple[str, int, float]:
    what, argv = LANES[name]
    print(f"\n=== {name}: {what}", flush=True)
    started = time.monotonic()
    code = subprocess.run(argv, cwd=ROOT, env=env_of(name), check=False).returncode
    return name, 0 if code == NO_TESTS else code, time.monotonic() - started


def env_of(name: str) -> dict[str, str]:
    only = {"STUDIO_TEST_ONLY": "database"} if name == "postgres" else {}
    # Tests start many processes; without kept bytecode each would compile all of Studio again.
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONFAULTHANDLER": "1", **only}


class Beside:
    """A lane that runs while others do. Its output is kept and shown at its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115  open as long as the lane runs
        self._process: subprocess.Popen | None = None
        self._started = 0.0

    def start(self) -> None:
        if self._process is None:
            self._started = time.monotonic()
            argv, out = LANES[self.name][1], self._output
            self._process = subprocess.Popen(argv, cwd=ROOT, env=env_of(self.name), stdout=out, stderr=out)

    def finish(self) -> tuple[str, int, float]:
        self.start()
        assert self._process is not None  # noqa: S101  start() has made it
        code = self._process.wait()
        self._output.seek(0)
        print(f"\n=== {self.name}: {LANES[self.name][0]}\n{self._output.read()}", flush=True)
        return self.name, 0 if code == NO_TESTS else code, time.monotonic() - self._started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
