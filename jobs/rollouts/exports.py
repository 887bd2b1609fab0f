"""Rollouts as files. Long exports stream; nothing is held in memory but a chunk."""

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from django.db.models import QuerySet

from jobs.rollouts.models import Rollout, Step
from jobs.rollouts.stored import whole_calls
from rftstudio.core.errors import UserError

_CHUNK = 200
#: A cell that a spreadsheet would run as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


#: What a step keeps of a result that is stored apart; in a file the result is whole again.
_APART = ("result_bytes", "result_digest")


@dataclass(frozen=True)
class Format:
    content_type: str
    ending: str
    write: Callable[[QuerySet[Rollout]], Iterator[bytes]]


def rollouts_in_chunks(rows: QuerySet[Rollout]) -> Iterator[list[Rollout]]:
    """Newest first, by key, with steps."""
    last = None
    while True:
        page = rows.select_related("batch").prefetch_related("steps__large_results").order_by("-id")
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
        "tool_calls": [{k: v for k, v in call.items() if k not in _APART} for call in whole_calls(step)],
        "finish_reason": step.finish_reason,
        "input_tokens": step.input_tokens,
        "output_tokens": step.output_tokens,
        "step_reward": step.step_reward,
        "reference_logprob": step.reference_logprob,
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
    calls = whole_calls(step)
    if calls:
        made["tool_calls"] = [
            {"tool_call_id": c.get("id", ""), "function_name": c.get("name", ""), "arguments": _object(c)}
            for c in calls
        ]
        made["observation"] = {
            "results": [{"source_call_id": c.get("id", ""), "content": c.get("result", "")} for c in calls]
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


_PARQUET = {
    "id": "string", "trace_id": "string", "batch": "string", "source": "string", "train_step": "int64",
    "item_key": "string", "sample_index": "int64", "status": "string", "stop_reason": "string", "error": "string",
    "reward": "float64", "passed": "bool", "sub_rewards": "json", "advantage": "float64", "answer": "string",
    "title": "string", "flags": "json", "extra": "json", "created_at": "string", "milliseconds": "float64",
    "steps": "json",
}  # fmt: skip


def write_parquet(rows: QuerySet[Rollout]) -> Iterator[bytes]:
    """One row a rollout; what has no fixed shape (steps, sub-rewards, flags) as JSON text. Written to a file first,
    because Parquet ends with its table of contents."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as exc:
        raise UserError(
            "Writing Parquet needs pyarrow, which this installation does not have.",
            where="format",
            fix="Install rft-studio[parquet], or export JSONL.",
        ) from exc
    types = {"string": pyarrow.string(), "json": pyarrow.string(), "int64": pyarrow.int64(),
             "float64": pyarrow.float64(), "bool": pyarrow.bool_()}  # fmt: skip
    schema = pyarrow.schema([(name, types[kind]) for name, kind in _PARQUET.items()])
    target = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the reader below
    with pyarrow.parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        for chunk in rollouts_in_chunks(rows):
            made = [_parquet_row(rollout_dict(rollout)) for rollout in chunk]
            writer.write_table(pyarrow.Table.from_pylist(made, schema=schema))
    return _pieces(target)


def _parquet_row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(row[name], ensure_ascii=False) if kind == "json" else row[name]
        for name, kind in _PARQUET.items()
    }


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(1 << 16):
            yield piece


FORMATS = {
    "parquet": Format("application/vnd.apache.parquet", "parquet", write_parquet),
    "jsonl": Format("application/x-ndjson", "jsonl", write_jsonl),
    "atif": Format("application/x-ndjson", "atif.jsonl", write_atif),
    "csv": Format("text/csv; charset=utf-8", "csv", write_csv),
}
