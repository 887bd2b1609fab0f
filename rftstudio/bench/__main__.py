"""`python -m rftstudio.bench [room…]`: measure speed and print one JSON object. Exit status 1 when a room's measures broke.

Each `rftstudio/bench/<room>.py` has `measures()`, which returns figures. Each room is measured in a process of its own, on a data
folder and a database of its own (or the one of DATABASE_URL), so that memory and caches of one do not colour another.
"""

import argparse
import importlib
import json
import os
import pkgutil
import platform
import subprocess
import sys
import tempfile
import time
from typing import Any

from rftstudio import bench

#: Takes an hour and keeps its runs, so it is a program of its own.
APART = {"credit_training"}
NAMES = {found.name for found in pkgutil.iter_modules(bench.__path__) if not found.name.startswith("_")}
ROOMS = sorted(NAMES - APART)
MARK = "bench-result:"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; none: all")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if unknown := set(chosen.rooms) - set(ROOMS):
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(ROOMS)}")
    if chosen.here:
        return _measure_here(chosen.rooms[0])
    results = {room: _measure_apart(room) for room in chosen.rooms or ROOMS}
    print(json.dumps({"machine": _machine(), "results": results}, indent=2))
    return 1 if any("failed" in result for result in results.values()) else 0


def _measure_apart(room: str) -> dict[str, Any]:
    print(f"bench: {room}…", file=sys.stderr, flush=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="studio-bench-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "rftstudio.bench", "--here", room],
            env={**os.environ, "STUDIO_VAR_DIR": folder, "STUDIO_LOG_LEVEL": "ERROR"},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    told = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    result = json.loads(told[-1]) if told else {"failed": f"ended with {done.returncode} and no figures"}
    return {**result, "seconds_taken": round(time.perf_counter() - started, 1)}


def _measure_here(room: str) -> int:
    """Figures, or why there are none: what a measure needs may not be installed."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftstudio.settings.local")
    import django
    from django.core.management import call_command

    try:
        django.setup()
        call_command("migrate", verbosity=0)
        result = {"measures": importlib.import_module(f"rftstudio.bench.{room}").measures()}
    except ImportError as exc:
        result = {"unavailable": str(exc)}
    except Exception as exc:  # told like any other outcome; the other rooms are measured all the same
        result = {"failed": f"{type(exc).__name__}: {exc}"}
    print(MARK + json.dumps(result))
    return 0


def _machine() -> dict[str, Any]:
    """What one needs to know before comparing; the load tells whether the figures can be trusted."""
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": load,
    }


if __name__ == "__main__":
    sys.exit(main())
