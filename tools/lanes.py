"""Runs the test lanes one after another and says how each went: `python tools/lanes.py [lane…]`.

A lane that fails does not keep the next from running; the exit status is 1 when any failed. A lane without tests passes.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
QUICK = "not browser and not services and not training"
JOBS = os.environ.get("JOBS") or "2"
PYTEST = [PYTHON, "-m", "pytest", "-q"]
PARALLEL = ["-n", JOBS, "--dist", "loadfile"]
NO_TESTS = 5

LANES: dict[str, tuple[str, list[str]]] = {
    "fast": ("without servers, browser or torch, on SQLite", [*PYTEST, "-m", QUICK, *PARALLEL]),
    "postgres": (
        "the same on a real PostgreSQL",
        [PYTHON, "-m", "tests.servers", *PYTEST, "-m", QUICK, *PARALLEL],
    ),
    "services": (
        "real servers and processes, production settings",
        [*PYTEST, "-m", "services and not training", "--durations=5"],
    ),
    "browser": ("Chromium", [*PYTEST, "-m", "browser and not training"]),
    "training": ("TRL, really trained", [*PYTEST, "-m", "training", "--durations=5"]),
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(LANES)
    if unknown:
        print(f"lanes: {', '.join(sorted(unknown))} is none of {', '.join(LANES)}")
        return 2
    results = [run(name) for name in names or LANES]
    print("\nlanes:")
    for name, code, seconds in results:
        print(f"  {name:<10} {'passed' if code == 0 else 'FAILED'}   {seconds:6.1f} s")
    return 1 if any(code for _, code, _ in results) else 0


def run(name: str) -> tuple[str, int, float]:
    what, argv = LANES[name]
    print(f"\n=== {name}: {what}", flush=True)
    started = time.monotonic()
    env = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    code = subprocess.run(argv, cwd=ROOT, env=env, check=False).returncode
    return name, 0 if code == NO_TESTS else code, time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
