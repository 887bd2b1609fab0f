"""Does better credit train better? The example trained with `uniform` and with `prefix_value` credit, three seeds each.

    python -m rftstudio.bench.credit_training FOLDER [--only prefix_value:2]

Every run is the real trainer on the example's base model, items, grader and plan; only `credit` and the seed differ, and
the first train step of two runs with one seed is the same to the last token. Runs that are there already are kept, one
that was cut goes on from its newest checkpoint. What is printed is a table for docs/benchmarks.md and the same as JSON.
It takes about an hour of one core, so `make bench` leaves it out.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rftstudio.demo import world

DEMO = Path(world.__file__).parent
TRAINER = DEMO.parents[1] / "jobs/backends/trl/train.py"
METHODS, SEEDS = ("uniform", "prefix_value"), (1, 2, 3)
#: Sample efficiency: train rollouts until this share of validation rollouts passes.
MARKS = (0.7, 0.8, 0.9)
CHECKS = {"eval_interval": 5, "eval_samples": 4, "max_eval_items": 48}


def run_make(folder: Path, method: str, seed: int) -> None:
    """The order of one run, as the web side would write it."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "spec.json").exists():
        return
    rows = world.items_make()
    for split in ("train", "validation"):
        lines = [json.dumps({"key": row["id"], "item": row}) for row in rows if row["split"] == split]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    plan = json.loads((DEMO / "plan.json").read_text()) | CHECKS | {"credit": method}
    agent = {"system_prompt": world.SYSTEM_PROMPT, "tools": list(world.TOOLS), "limits": world.LIMITS}
    (folder / "control").write_text("")
    spec = {
        "spec_version": 1, "job_id": f"ftjob-bench-{seed}", "base_model": str(DEMO / "base_model"), "seed": seed,
        "agent": agent | {"sampling": {}, "response_format": None}, "pass_threshold": 0.75,
        "grader": json.loads((DEMO / "grader.json").read_text()), "plan": plan,
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec, indent=1))


def run_train(folder: Path) -> int:
    """The trainer, to its end. One that ended says so at once."""
    with (folder / "trainer.log").open("ab") as log:
        return subprocess.run(
            [sys.executable, str(TRAINER), str(folder)], stdout=log, stderr=log, check=False
        ).returncode


def run_read(folder: Path) -> dict[str, Any] | None:
    """Curves of a run that succeeded: (train rollouts so far, validation pass rate, validation reward) at each check."""
    path = folder / "journal.jsonl"
    if not path.exists():
        return None
    events = [json.loads(line) for line in path.read_text().splitlines() if '"type":"rollout"' not in line]
    if events[-1].get("status") != "succeeded":
        return None
    steps = {event["step"]: event for event in events if event["type"] == "step"}  # what ran twice counts once
    rollouts, curve = 0, []
    for number in sorted(steps):
        event = steps[number]
        rollouts += event["rollouts"]
        if event["metrics"].get("valid_pass_rate") is not None:
            metrics = event["metrics"]
            curve.append((rollouts, metrics["valid_pass_rate"], metrics["full_valid_mean_reward"]))
    seconds = [steps[number]["metrics"]["timing"]["step"] for number in steps]
    return {
        "curve": curve,
        "train_reward": [steps[number]["metrics"]["train_mean_reward"] for number in sorted(steps)],
        "seconds_per_step": fmean(one["sampling"] + one["training"] for one in seconds),
    }


def rollouts_until(curve: Sequence[tuple[int, float, float]], mark: float) -> int | None:
    """Train rollouts at which the pass rate first reaches the mark, between two checks by a straight line."""
    before_rollouts, before = 0, None
    for rollouts, rate, _ in curve:
        if rate >= mark:
            if before is None:
                return rollouts
            return round(before_rollouts + (mark - before) / (rate - before) * (rollouts - before_rollouts))
        before_rollouts, before = rollouts, rate
    return None


def figures_of(run: dict[str, Any]) -> dict[str, Any]:
    """One run in numbers: mean pass rate over the whole run, at its end (last three checks), and rollouts to each mark."""
    rates = [rate for _, rate, _ in run["curve"]]
    return {
        "mean_pass_rate": fmean(rates),
        "end_pass_rate": fmean(rates[-3:]),
        "end_reward": fmean(reward for _, _, reward in run["curve"][-3:]),
        "rollouts_until": {f"{mark:.0%}": rollouts_until(run["curve"], mark) for mark in MARKS},
        "seconds_per_step": run["seconds_per_step"],
    }


def table(results: dict[str, dict[int, dict[str, Any]]]) -> str:
    """Markdown: a row a run, then the learning curves as means over the seeds."""
    heads = " | ".join(f"rollouts to {mark:.0%}" for mark in MARKS)
    lines = [
        f"| credit | seed | pass rate, mean over the run | pass rate at the end | reward at the end | {heads} |",
        "|---" * (5 + len(MARKS)) + "|",
    ]
    for method, runs in results.items():
        for seed, run in sorted(runs.items()):
            told = figures_of(run)
            until = " | ".join("not reached" if n is None else f"{n:,}" for n in told["rollouts_until"].values())
            lines.append(
                f"| `{method}` | {seed} | {told['mean_pass_rate']:.1%} | {told['end_pass_rate']:.1%} | "
                f"{told['end_reward']:.3f} | {until} |"
            )
    lines += ["", "| train rollouts | " + " | ".join(f"`{method}`" for method in results) + " |"]
    lines += ["|---" * (1 + len(results)) + "|"]
    every = [run["curve"] for runs in results.values() for run in runs.values()]
    for place in range(min(map(len, every))):
        rates = [[run["curve"][place][1] for run in runs.values()] for runs in results.values()]
        cells = " | ".join(f"{fmean(some):.1%} ({min(some):.1%} to {max(some):.1%})" for some in rates)
        lines.append(f"| {every[0][place][0]:,} | {cells} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="credit_training")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="METHOD:SEED; none: all")
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wanted = [(method, seed) for seed in SEEDS for method in METHODS]
    if chosen.only:
        method, _, seed = chosen.only.partition(":")
        wanted = [(method, int(seed))]
    results: dict[str, dict[int, dict[str, Any]]] = {method: {} for method in METHODS}
    for method, seed in wanted:
        folder = chosen.folder / f"{method}-{seed}"
        run_make(folder, method, seed)
        if run_train(folder):
            print(f"{folder.name} failed; its trainer.log says why", file=sys.stderr)
            return 1
        if run := run_read(folder):
            results[method][seed] = run
    results = {method: runs for method, runs in results.items() if runs}
    print(table(results))
    print(json.dumps({m: {s: figures_of(run) for s, run in runs.items()} for m, runs in results.items()}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
