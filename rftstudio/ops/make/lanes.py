"""Runs the test lanes and says how each went: `python rftstudio/ops/make/lanes.py [lane…]`.

A lane that fails does not keep the next from running; the exit status is 1 when any failed. A lane without tests passes.
Lanes go on two tracks side by side, for those that start servers, browsers and trainers wait a good part of their time.
What a lane printed is shown when it ends; when it runs alone, at once.
"""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PYTHON = sys.executable
QUICK = "not browser and not services and not training"
JOBS = os.environ.get("JOBS") or "2"
PYTEST = [PYTHON, "-m", "pytest", "-q"]
# Files in the order that tests/conftest.py gives them: the long ones first, so that none is left alone at the end.
PARALLEL = ["-n", JOBS, "--dist", "loadfile", "--no-loadscope-reorder"]
NO_TESTS = 5
TRACKS = (("fast", "postgres"), ("browser", "services", "training"))

LANES: dict[str, tuple[str, list[str]]] = {
    "fast": ("without servers, browser or torch, on SQLite", [*PYTEST, "-m", QUICK, *PARALLEL]),
    "postgres": (
        "those that ask the database, on a real PostgreSQL",
        [PYTHON, "-m", "tests.servers", *PYTEST, "-m", QUICK, *PARALLEL],
    ),
    "services": (
        "real servers and processes, production settings",
        [*PYTEST, "-m", "services and not training", "--durations=5"],
    ),
    "browser": ("Chromium", [*PYTEST, "tests/browser", "-m", "browser and not training"]),
    "training": ("TRL, really trained", [*PYTEST, "-m", "training", "--durations=5"]),
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(LANES)
    if unknown:
        print(f"lanes: {', '.join(sorted(unknown))} is none of {', '.join(LANES)}")
        return 2
    tracks = [wanted for track in TRACKS if (wanted := [name for name in track if name in (names or LANES)])]
    is_alone = len(tracks) == 1
    with ThreadPoolExecutor(len(tracks)) as pool:
        done = pool.map(lambda track: [run(name, is_alone) for name in track], tracks)
        results = [result for track in done for result in track]
    print("\nlanes:")
    for name, code, seconds in results:
        print(f"  {name:<10} {'passed' if code == 0 else 'FAILED'}   {seconds:6.1f} s")
    return 1 if any(code for _, code, _ in results) else 0


def run(name: str, is_alone: bool) -> tuple[str, int, float]:
    what, argv = LANES[name]
    say(f"\n=== {name}: {what}{'' if is_alone else ', under way'}")
    started = time.monotonic()
    done = subprocess.run(
        argv, cwd=ROOT, env=env_of(name), check=False, text=True,
        stdout=None if is_alone else subprocess.PIPE, stderr=None if is_alone else subprocess.STDOUT,
    )  # fmt: skip
    if not is_alone:
        say(f"\n=== {name}: {what}\n{done.stdout}")
    return name, 0 if done.returncode == NO_TESTS else done.returncode, time.monotonic() - started


_printing = threading.Lock()


def say(text: str) -> None:
    with _printing:
        print(text, flush=True)


def env_of(name: str) -> dict[str, str]:
    only = {"STUDIO_TEST_ONLY": "database"} if name == "postgres" else {}
    # Tests start many processes; without kept bytecode each would compile all of Studio again.
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONFAULTHANDLER": "1", **only}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
