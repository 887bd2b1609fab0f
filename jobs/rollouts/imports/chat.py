"""Conversations: chat JSONL, benchmark trajectories, and rows that repeat the conversation after every step."""

import hashlib
import json
from typing import Any

from jobs.rollouts.imports.messages import add_messages, title_of
from jobs.rollouts.imports.reading import Document, number, text_of
from jobs.rollouts.imports.types import Imported, ImportedRollout

_REWARD_KEYS = ("reward", "score")


def conversation(value: Any) -> list[Any] | None:
    """The messages of a row, wherever its format keeps them."""
    if not isinstance(value, dict):
        return None
    for key in ("messages", "traj", "trajectory", "conversation", "chat"):
        if isinstance(value.get(key), list) and value[key] and all(isinstance(m, dict) for m in value[key]):
            return value[key]
    return None


def is_mine(value: Any) -> bool:
    messages = conversation(value)
    return messages is not None and any("role" in m for m in messages)


def is_step_rows(value: Any) -> bool:
    return is_mine(value) and "env_index" in value and "step" in value


def read(documents: list[Document]) -> Imported:
    kind = "tau_bench" if isinstance(documents[0].value, dict) and "traj" in documents[0].value else "chat"
    return Imported(kind, [_rollout(d.value, d.line) for d in documents if is_mine(d.value)])


def _rollout(row: dict[str, Any], line: int) -> ImportedRollout:
    task = next((row[key] for key in ("task_id", "item_key", "group", "prompt_id") if row.get(key) is not None), None)
    rollout = ImportedRollout(
        key=str(row.get("rollout_id") or row.get("id") or f"line {line}"),
        group="" if task is None else f"task {task}" if "task_id" in row else str(task),
        policy=str(row.get("model") or ""),
        extra={k: v for k, v in row.items() if k not in ("messages", "traj", "trajectory", "conversation", "chat")},
    )
    add_messages(rollout, conversation(row) or [])
    rollout.reward = next((number(row[key]) for key in _REWARD_KEYS if row.get(key) is not None), None)
    rollout.title = title_of(rollout.prompt)
    return rollout


def read_step_rows(documents: list[Document]) -> Imported:
    """The last row of each environment holds its whole conversation; rewards are paid on the way and add up."""
    latest: dict[Any, dict[str, Any]] = {}
    counts: dict[Any, int] = {}
    for document in documents:
        row = document.value
        if not is_step_rows(row):
            continue
        key = row["env_index"]
        counts[key] = counts.get(key, 0) + 1
        if key not in latest or row["step"] >= latest[key]["step"]:
            latest[key] = row
    found = Imported("step_rows")
    for key, row in latest.items():
        rollout = ImportedRollout(key=f"env {key}", extra={"step_rows": counts[key]})
        add_messages(rollout, row["messages"])
        paid = [step.step_reward for step in rollout.steps if step.step_reward is not None]
        rollout.reward = sum(paid) if paid else None
        rollout.title = title_of(rollout.prompt)
        rollout.group = prompt_key(rollout.prompt)
        if len(rollout.steps) != counts[key]:
            words = f"{counts[key]} rows, {len(rollout.steps)} steps in the last one."
            rollout.flag("step_count_differs", f"env {key}", words)
        found.rollouts.append(rollout)
    return found


def prompt_key(prompt: list[dict[str, Any]]) -> str:
    """Names the item by what was asked, when nothing else does."""
    text = json.dumps([[m.get("role"), text_of(m.get("content"))] for m in prompt], ensure_ascii=False)
    return "prompt " + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
