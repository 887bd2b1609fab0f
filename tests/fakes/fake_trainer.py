"""A trainer that learns nothing and keeps the contract: journal, heartbeat, control, checkpoints, restarts.

Started like the real one, `python fake_trainer.py RUN_DIR`. The variable FAKE_TRAINER holds its script as JSON:
`step_seconds`, `crash_at` (train steps before whose end it kills itself), `crash_always` (also after a restart),
`half_line` (leaves a torn line behind), `deaf` (ignores the control file and SIGTERM), `fail_at` (reports a failure),
`wait_at` (a train step that lasts until the file `go` is there), `hold_at` (a train step for each start, which lasts
until a pause or cancel is asked for: what a test does in mid-run then never comes too late), `nan_at` (a metric that is
no number), `exit_at_start` (dies before it says a word).
"""

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

RUN_DIR = Path(sys.argv[1])
SCRIPT = json.loads(os.environ.get("FAKE_TRAINER") or "{}")
STEP_SECONDS = SCRIPT.get("step_seconds", 0.02)
asked_to_pause = threading.Event()


def beat() -> None:
    while True:
        (RUN_DIR / "heartbeat").touch()
        time.sleep(0.2)


def control() -> str:
    if SCRIPT.get("deaf"):
        return ""
    return "pause" if asked_to_pause.is_set() else (RUN_DIR / "control").read_text().strip()


class Journal:
    def __init__(self) -> None:
        self.path = RUN_DIR / "journal.jsonl"
        data = self.path.read_bytes() if self.path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            os.truncate(self.path, len(whole))
        self.lines = [json.loads(line) for line in whole.splitlines()]
        self.seq = self.lines[-1]["seq"] if self.lines else 0
        self.file = self.path.open("ab")

    def write(self, type: str, **fields) -> None:
        self.seq += 1
        line = {"seq": self.seq, "at": time.time(), "type": type, **fields}
        self.lines.append(line)
        self.file.write(json.dumps(line).encode() + b"\n")
        self.file.flush()


def rollout(key: str, index: int, step: int, attempt: int, reward: float) -> dict:
    call = {"id": "call_1", "name": "lookup", "arguments": "{}", "result": "12", "milliseconds": 3.0}
    steps = [
        {"index": 0, "text": "", "tool_calls": [call], "finish_reason": "tool_calls", "output_tokens": 7},
        {"index": 1, "text": "12", "tool_calls": [], "finish_reason": "stop", "output_tokens": 4},
    ]
    return {
        "item_key": key,
        "sample_index": index,
        "trace_id": f"trace_{RUN_DIR.name}_{attempt}_{step}_{key}_{index}",
        "trajectory": {"steps": steps, "stop_reason": "answered", "answer": "12", "milliseconds": 20.0},
        "grade": {"reward": reward, "sub_rewards": {"exact": reward, "brevity": 1.0}},
        "advantage": reward - 0.5,
        "extra": {},
    }


def rollouts(journal: Journal, phase: str, step: int, items: list[dict], samples: int, attempt: int) -> list[float]:
    rewards = []
    for item in items:
        for index in range(samples):
            chance = random.Random(f"{phase}{step}{item['key']}{index}").random()
            rewards.append(1.0 if chance < 0.3 + 0.05 * step else 0.2)
            record = rollout(item["key"], index, step, attempt, rewards[-1])
            journal.write("rollout", phase=phase, step=step, record=record)
    return rewards


def newest_checkpoint() -> int:
    whole = [path for path in (RUN_DIR / "checkpoints").glob("checkpoint-*") if (path / "whole").exists()]
    return max((int(path.name.split("-")[1]) for path in whole), default=0)


def save(journal: Journal, step: int, reward: float | None) -> None:
    folder = RUN_DIR / "checkpoints" / f"checkpoint-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights %d" % step)
    (folder / "optimizer.pt").write_bytes(b"state")
    (folder / "whole").touch()
    journal.write(
        "checkpoint",
        step=step,
        path=f"checkpoints/checkpoint-{step}",
        digest=f"{step:064d}",
        validation_reward=reward,
        metrics={},
    )


def die(journal: Journal) -> None:
    if SCRIPT.get("half_line"):
        journal.file.write(b'{"seq": 99999, "type": "roll')
        journal.file.flush()
    print("RuntimeError: the card is out of memory", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    if SCRIPT.get("exit_at_start"):
        print("ModuleNotFoundError: No module named 'torch'", flush=True)
        sys.exit(1)
    spec = json.loads((RUN_DIR / "spec.json").read_text())
    plan = spec["plan"]
    if SCRIPT.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: asked_to_pause.set())
    threading.Thread(target=beat, daemon=True).start()
    items = [json.loads(line) for line in (RUN_DIR / "train.jsonl").read_text().splitlines()]
    checks = [json.loads(line) for line in (RUN_DIR / "validation.jsonl").read_text().splitlines()]
    journal, began = Journal(), time.time()
    attempt = 1 + sum(line["type"] == "started" for line in journal.lines)
    done = newest_checkpoint()
    total = plan["max_steps"]
    journal.write("started", attempt=attempt, from_step=done, total_steps=total, device="cpu", threads=1, versions={})

    def finish(status: str, error=None) -> None:
        lineage: dict[int, int] = {}
        for line in journal.lines:
            if line["type"] == "started":
                lineage = {step: count for step, count in lineage.items() if step <= line["from_step"]}
            elif line["type"] == "rollout" and line["phase"] == "train":
                lineage[line["step"]] = lineage.get(line["step"], 0) + 1
        count = sum(number for step, number in lineage.items() if step <= done)
        journal.write(
            "finished",
            status=status,
            error=error,
            train_steps=done,
            rollouts=count,
            seconds=time.time() - began,
            best_step=done,
        )
        sys.exit(0)

    while done < total:
        step = done + 1
        size = plan["batch_size"]
        start = (step - 1) * size % len(items)
        chosen = (items + items)[start : start + size]
        if step == SCRIPT.get("fail_at"):
            finish("failed", {"code": "grader_broken", "message": "The grader cannot be compiled.", "param": "grader"})
        rewards = rollouts(journal, "train", step, chosen, plan["group_size"], attempt)
        if step in SCRIPT.get("crash_at", []) and (attempt == 1 or SCRIPT.get("crash_always")):
            die(journal)
        until = time.time() + STEP_SECONDS
        holds = step in SCRIPT.get("hold_at", [])[attempt - 1 : attempt]
        while (
            time.time() < until
            or (step == SCRIPT.get("wait_at") and not (RUN_DIR / "go").exists())
            or (holds and not control())
        ):
            if control() == "cancel":
                finish("cancelled")
            time.sleep(0.01)
        metrics = {
            "train_mean_reward": sum(rewards) / len(rewards),
            "loss": 0.1,
            "entropy": 1.2,
            "grad_norm": float("nan") if step == SCRIPT.get("nan_at") else 0.5,
            "tools": {"lookup": 1.0},
        }
        is_check = checks and (step % plan["eval_interval"] == 0 or step == total)
        reward = None
        if is_check:
            found = rollouts(
                journal, "validation", step, checks[: plan["max_eval_items"]], plan["eval_samples"], attempt
            )
            reward = metrics["full_valid_mean_reward"] = sum(found) / len(found)
        done = step
        journal.write(
            "step", step=step, total_steps=total, metrics=metrics, rollouts=len(rewards), seconds=STEP_SECONDS
        )
        pause = control() == "pause"
        if is_check or pause or done == total:
            save(journal, step, reward)
        if pause and done < total:
            finish("paused")
        if control() == "cancel":
            finish("cancelled")
    finish("succeeded")


if __name__ == "__main__":
    main()
