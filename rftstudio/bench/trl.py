"""What the trainer costs over TRL's own loop: a train step of 8 × 8 rollouts of the example, with the same model.

Each loop runs in processes of its own, turn about, so that a busy machine slows both. CPU seconds are the figure to trust
there; wall seconds are told beside them.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

LOOP = Path(__file__).with_name("_trl_loop.py")
STEPS, TURNS = 14, 2
MARK = "bench-loop:"


def loop(which: str, steps: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(LOOP), which, str(steps)], capture_output=True, text=True, check=False, timeout=900
    )
    told = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not told:
        if "No module named" in done.stderr:
            raise ImportError(done.stderr.strip().splitlines()[-1])
        raise RuntimeError(f"{which} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return json.loads(told[-1])


def measures(steps: int = STEPS, turns: int = TURNS) -> list[dict[str, Any]]:
    """Medians over train steps with quartiles and means, and the overhead as a share of the bare loop, also turn by turn.

    The mean counts what the median hides: a try that rambles on makes its whole train step wait.
    """
    runs: dict[str, list[dict[str, Any]]] = {"bare": [], "studio": []}
    for _ in range(turns):
        for which, found in runs.items():
            found.append(loop(which, steps))
    figures: dict[str, Any] = {
        "name": "train step of 64 rollouts, Studio over bare TRL",
        "steps_each": (steps - 2) * turns,
    }
    for which, found in runs.items():
        for unit in ("cpu", "wall"):
            taken = [step[unit] for run in found for step in run["steps"]]
            figures[f"{which}_{unit}_seconds"] = round(median(taken), 3)
            low, _, high = quantiles(taken, n=4)
            figures[f"{which}_{unit}_mean_seconds"] = round(fmean(taken), 3)
            figures[f"{which}_{unit}_quartiles"] = [round(low, 3), round(high, 3)]
        figures[f"{which}_tokens"] = round(median(run["tokens"] for run in found), 1)
    for unit in ("cpu", "wall"):
        figures[f"overhead_{unit}"] = round(figures[f"studio_{unit}_seconds"] / figures[f"bare_{unit}_seconds"] - 1, 3)
        means = [figures[f"{which}_{unit}_mean_seconds"] for which in ("studio", "bare")]
        figures[f"overhead_{unit}_mean"] = round(means[0] / means[1] - 1, 3)
        figures[f"overhead_{unit}_by_turn"] = [
            round(_median(after, unit) / _median(before, unit) - 1, 3)
            for before, after in zip(runs["bare"], runs["studio"], strict=True)
        ]
    return [figures | {"target_overhead": 0.10}]


def _median(run: dict[str, Any], unit: str) -> float:
    return median(step[unit] for step in run["steps"])
