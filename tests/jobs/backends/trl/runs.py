"""Makes run folders and drives the trainer as the web side does: by its process, its control file and its journal."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rftstudio.demo import world

DEMO = Path(world.__file__).parent
ROOT = DEMO.parents[1]
TRAINER = ROOT / "jobs" / "backends" / "trl" / "train.py"
BASE_MODEL = DEMO / "base_model"
SMALL = {
    "max_steps": 4,
    "batch_size": 2,
    "group_size": 4,
    "eval_interval": 2,
    "eval_samples": 1,
    "max_eval_items": 3,
    "max_completion_tokens": 48,
}


def make_run(folder: Path, *, seed: int = 1, tools: list | None = None, **plan) -> Path:
    """A run folder on the example with a small plan."""
    folder.mkdir(parents=True)
    rows = world.items_make()
    for split, count in {"train": 12, "validation": 4}.items():
        chosen = [row for row in rows if row["split"] == split][:count]
        lines = [json.dumps({"key": row["id"], "item": row}) for row in chosen]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    spec = {
        "spec_version": 1,
        "job_id": f"ftjob-{folder.name}",
        "base_model": str(BASE_MODEL),
        "seed": seed,
        "agent": {
            "system_prompt": world.SYSTEM_PROMPT,
            "tools": list(tools or world.TOOLS),
            "limits": world.LIMITS,
            "sampling": {},
            "response_format": None,
        },
        "grader": json.loads((DEMO / "grader.json").read_text()),
        "pass_threshold": 0.75,
        "plan": {**SMALL, **plan},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "control").write_text("")
    return folder


def start(run: Path, **environment: str) -> subprocess.Popen:
    log = (run / "trainer.log").open("ab")
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen([sys.executable, str(TRAINER), str(run)], stdout=log, stderr=log, env=env)


def train(run: Path) -> int:
    return start(run).wait(timeout=300)


def events(run: Path) -> list[dict]:
    path = run / "journal.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def of_type(run: Path, kind: str) -> list[dict]:
    return [event for event in events(run) if event["type"] == kind]


def wait_for(run: Path, process: subprocess.Popen, kind: str, step: int, seconds: float = 240) -> None:
    """Until the journal tells of an event of that kind at that step or later."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if any(event.get("step", 0) >= step for event in of_type(run, kind)):
            return
        if process.poll() is not None:
            raise AssertionError(f"the trainer ended early: {(run / 'trainer.log').read_text()[-2000:]}")
        time.sleep(0.01)
    raise AssertionError(f"no {kind} at step {step}")


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def lineage(run: Path) -> dict[tuple, dict]:
    """Train rollouts as a reader keeps them: by natural key, a restart's replacing those it ran again."""
    kept: dict[tuple, dict] = {}
    for event in events(run):
        if event["type"] == "started":
            kept = {key: record for key, record in kept.items() if key[0] <= event["from_step"]}
        elif event["type"] == "rollout" and event["phase"] == "train":
            record = event["record"]
            key = (event["step"], record["item_key"], record["sample_index"])
            assert key not in kept, f"doubled: {key}"
            kept[key] = record
    return kept


def essence(record: dict) -> tuple:
    """What two equal rollouts share: everything but clocks and ids."""
    steps = [
        (step["text"], [(call["name"], call["arguments"], call["result"]) for call in step["tool_calls"]])
        for step in record["trajectory"]["steps"]
    ]
    return record["item_key"], record["sample_index"], steps, record["grade"]["reward"], record["advantage"]


def last_digest(run: Path) -> str:
    return of_type(run, "checkpoint")[-1]["digest"]
