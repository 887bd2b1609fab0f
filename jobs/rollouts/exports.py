"""Rollouts as files. Long exports stream; nothing is held in memory but a chunk."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from jobs.rollouts.models import Rollout, Step

_CHUNK = 200
#: A cell that a spreadsheet would run as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Format:
    content_type: str
    ending: str
    write: Callable[[QuerySet[Rollout]], Iterator[bytes]]


def rollouts_in_chunks(rows: QuerySet[Rollout]) -> Iterator[list[Rollout]]:
    """Newest first, by key, with steps."""
    last = None
    while True:
        page = rows.select_related("batch").prefetch_related("steps").order_by("-id")
        if last is not None:
            page = page.filter(id__lt=last)
        chunk = list(page[:_CHUNK])
        if not chunk:
            return
        yield chunk
        last = chunk[-1].id


def rollout_dict(rollout: Rollout) -> dict[str, Any]:
    """One rollout as plain data; `rollouts_import` reads it back."""
    return {
        "id": rollout.public_id,
        "trace_id": rollout.trace_id,
        "batch": rollout.batch.public_id,
        "source": rollout.batch.source,
        "train_step": rollout.batch.train_step,
        "item_key": rollout.group_key,
        "sample_index": rollout.sample_index,
        "status": rollout.status,
        "stop_reason": rollout.stop_reason,
        "error": rollout.error,
        "reward": rollout.reward,
        "passed": rollout.passed,
        "sub_rewards": rollout.sub_rewards,
        "advantage": rollout.advantage,
        "answer": rollout.answer,
        "title": rollout.title,
        "flags": rollout.flags,
        "extra": rollout.extra,
        "created_at": rollout.created_at.isoformat(),
        "milliseconds": rollout.milliseconds,
        "steps": [step_dict(step) for step in sorted(rollout.steps.all(), key=lambda step: step.index)],
    }


def step_dict(step: Step) -> dict[str, Any]:
    return {
        "index": step.index,
        "text": step.text,
        "reasoning": step.reasoning,
        "tool_calls": step.tool_calls,
        "finish_reason": step.finish_reason,
        "input_tokens": step.input_tokens,
        "output_tokens": step.output_tokens,
        "step_reward": step.step_reward,
        "started_at": step.started_at.isoformat() if step.started_at else None,
        "milliseconds": step.milliseconds,
    }


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def write_jsonl(rows: QuerySet[Rollout]) -> Iterator[bytes]:
    for chunk in rollouts_in_chunks(rows):
        yield b"".join(_line(rollout_dict(rollout)) for rollout in chunk)


def write_atif(rows: QuerySet[Rollout]) -> Iterator[bytes]:
    for chunk in rollouts_in_chunks(rows):
        yield b"".join(_line(atif_dict(rollout)) for rollout in chunk)


def atif_dict(rollout: Rollout) -> dict[str, Any]:
    """One rollout in the Agent Trajectory Interchange Format, version 1."""
    agent = rollout.batch.agent_version
    return {
        "schema_version": "ATIF-v1.4",
        "session_id": rollout.trace_id,
        "agent": {
            "name": agent.agent.name if agent else "unknown",
            "version": str(agent.number) if agent else "0",
            "model_name": rollout.batch.policy_label or (rollout.batch.model.name if rollout.batch.model else ""),
        },
        "steps": [_atif_step(step) for step in sorted(rollout.steps.all(), key=lambda step: step.index)],
        "final_metrics": {
            "total_prompt_tokens": rollout.input_tokens,
            "total_completion_tokens": rollout.output_tokens,
            "total_steps": rollout.n_steps,
            "extra": {"reward": rollout.reward, "sub_rewards": rollout.sub_rewards},
        },
    }


def _atif_step(step: Step) -> dict[str, Any]:
    made: dict[str, Any] = {
        "step_id": step.index + 1,
        "timestamp": step.started_at.isoformat() if step.started_at else None,
        "source": "agent",
        "message": step.text,
        "metrics": {"prompt_tokens": step.input_tokens, "completion_tokens": step.output_tokens},
    }
    if step.reasoning:
        made["reasoning_content"] = step.reasoning
    if step.tool_calls:
        made["tool_calls"] = [
            {"tool_call_id": c.get("id", ""), "function_name": c.get("name", ""), "arguments": _object(c)}
            for c in step.tool_calls
        ]
        made["observation"] = {
            "results": [{"source_call_id": c.get("id", ""), "content": c.get("result", "")} for c in step.tool_calls]
        }
    return {key: value for key, value in made.items() if value is not None}


def _object(call: dict[str, Any]) -> Any:
    try:
        return json.loads(call.get("arguments") or "{}")
    except ValueError:
        return {"_raw": call.get("arguments")}


_CSV_COLUMNS = (
    "id", "source", "train_step", "item_key", "sample_index", "status", "stop_reason", "reward", "passed",
    "advantage", "title", "answer", "error", "created_at", "milliseconds",
)  # fmt: skip


def write_csv(rows: QuerySet[Rollout]) -> Iterator[bytes]:
    """Numbers stay numbers; text that a spreadsheet would run gets a leading apostrophe."""
    yield (",".join(_CSV_COLUMNS) + "\r\n").encode()
    for chunk in rollouts_in_chunks(rows):
        text = io.StringIO()
        writer = csv.writer(text)
        for rollout in chunk:
            row = rollout_dict(rollout)
            writer.writerow([safe_cell(row[column]) for column in _CSV_COLUMNS])
        yield text.getvalue().encode("utf-8", "replace")


def safe_cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value


FORMATS = {
    "jsonl": Format("application/x-ndjson", "jsonl", write_jsonl),
    "atif": Format("application/x-ndjson", "atif.jsonl", write_atif),
    "csv": Format("text/csv; charset=utf-8", "csv", write_csv),
}
