"""Named measures. One is a function that returns figures; it may say that what it would measure is not there."""

import gc
import time
from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]
MEASURES: dict[str, Callable[[], Figures]] = {}


class Unavailable(Exception):
    """What would be measured is not in this installation; the text says what is missing."""


def measure(function: Callable[[], Figures]) -> Callable[[], Figures]:
    """Register a measure under its name; the first line of its docstring says what is measured, with its target."""
    MEASURES[function.__name__] = function
    return function


def run(name: str) -> Figures:
    """The figures, or why there are none. Never raises, so that one broken measure does not hide the others."""
    function = MEASURES[name]
    gc.collect()
    started = time.perf_counter()
    try:
        figures = function()
    except (Unavailable, ImportError) as exc:
        return {"unavailable": f"{exc}"}
    except Exception as exc:  # a bench tells, it does not stop
        return {"failed": f"{type(exc).__name__}: {exc}"}
    what = (function.__doc__ or "").strip().partition("\n")[0]
    return {"measures": what, **figures, "seconds_taken": round(time.perf_counter() - started, 2)}


def rate(once: Callable[[], object], *, seconds: float = 1.0, batch: int = 1000, rounds: int = 3) -> float:
    """How often per second `once` runs: the best of some rounds, because whatever else the machine does only slows."""
    once()
    best = 0.0
    for _ in range(rounds):
        count, started = 0, time.perf_counter()
        while (passed := time.perf_counter() - started) < seconds / rounds:
            for _ in range(batch):
                once()
            count += batch
        best = max(best, count / passed)
    return round(best, 1)
