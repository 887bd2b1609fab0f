"""From trajectories to rows: the one place that says how a finished rollout looks in the tables. Writes nothing."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import orjson

from graders.types import is_pass
from jobs.rollouts.cleaning import clean, clean_json, finite
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory
from jobs.rollouts.models import Rollout, Step

_TOOL_PATH = 400


def rollout_values(trajectory: Trajectory, grade: dict[str, Any], *, pass_threshold: float) -> dict[str, Any]:
    """Every column that a finished rollout fills. A sound trajectory whose grader gave no number ends as grader_failed."""
    reward = None if trajectory.is_failed else finite(grade.get("reward"))
    stop_reason, error = trajectory.stop_reason, trajectory.error
    if grade and reward is None and not trajectory.is_failed:
        stop_reason = Rollout.StopReason.GRADER_FAILED
        error = str(grade.get("details") or "The grader gave no number.")
    calls = trajectory.tool_calls
    return {
        "status": _status(stop_reason),
        "stop_reason": stop_reason,
        "error": clean(error),
        "reward": reward,
        "passed": None if reward is None else is_pass(reward, pass_threshold),
        "sub_rewards": clean_json(grade.get("sub_rewards") or {}),
        "grade": clean_json(grade),
        "answer": clean(trajectory.answer),
        "n_steps": len(trajectory.steps),
        "n_tool_calls": len(calls),
        "n_tool_errors": sum(call.is_error for call in calls),
        "tool_path": tool_path(trajectory),
        "input_tokens": trajectory.input_tokens,
        "output_tokens": trajectory.output_tokens,
        "started_at": _moment(trajectory.started_at),
        "milliseconds": finite(trajectory.milliseconds),
        "flags": _flags(trajectory),
        "lease_until": None,
    }


def _status(stop_reason: str) -> str:
    if stop_reason == Rollout.StopReason.CANCELLED:
        return Rollout.Status.CANCELLED
    failed = {
        Rollout.StopReason.TOOL_FAILED,
        Rollout.StopReason.MODEL_FAILED,
        Rollout.StopReason.GRADER_FAILED,
        Rollout.StopReason.STUDIO_FAILED,
    }
    return Rollout.Status.FAILED if stop_reason in failed else Rollout.Status.DONE


def tool_path(trajectory: Trajectory) -> str:
    """Tool names in order: `lookup+lookup>calc>answer`, parallel calls joined by +."""
    path = ">".join(
        "+".join(call.name for call in step.tool_calls) if step.tool_calls else "answer" for step in trajectory.steps
    )
    return clean(path if len(path) <= _TOOL_PATH else path[: _TOOL_PATH - 1] + "…")


def _flags(trajectory: Trajectory) -> list[dict[str, str]]:
    return [
        {"code": "call_note", "where": f"step {step.index + 1}, {call.name}", "message": clean(note)}
        for step in trajectory.steps
        for call in step.tool_calls
        for note in call.notes
    ]


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def step_rows(rollout_id: int, trajectory: Trajectory, grade: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The trajectory's steps as rows for `bulk.insert`, which writes call records as they are; rewards per step come from
    the grader where it gave them."""
    rewards = grade.get("step_rewards") or []
    for place, step in enumerate(trajectory.steps):
        yield _step_row(rollout_id, step, rewards[place] if place < len(rewards) else None)


def _step_row(rollout_id: int, step: StepRecord, reward: Any) -> dict[str, Any]:
    return {
        "rollout_id": rollout_id,
        "index": step.index,
        "text": clean(step.text),
        "reasoning": clean(step.reasoning),
        "tool_calls": step.tool_calls,
        "finish_reason": step.finish_reason[:24],
        "input_tokens": step.input_tokens,
        "output_tokens": step.output_tokens,
        "logprob_sum": finite(step.logprob_sum),
        "entropy_mean": finite(step.entropy_mean),
        "step_reward": finite(step.step_reward if step.step_reward is not None else reward),
        "reference_logprob": finite(step.reference_logprob),
        "started_at": _moment(step.started_at),
        "milliseconds": finite(step.milliseconds),
    }


def call_dict(call: ToolCallRecord) -> dict[str, Any]:
    return {
        "id": clean(call.id),
        "name": clean(call.name),
        "arguments": clean(call.arguments),
        "result": clean(call.result),
        "is_error": call.is_error,
        "milliseconds": finite(call.milliseconds) or 0.0,
        "notes": [clean(note) for note in call.notes],
    }


def body_digest(record: RolloutRecord) -> str:
    """A fingerprint of the whole record, to tell a replay from another body."""
    try:
        body = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # lone surrogates, or numbers of more than 64 bits
        body = json.dumps(record.as_dict(), sort_keys=True, default=str).encode()
    return hashlib.blake2b(body, digest_size=16).hexdigest()


_CALL_FIELDS = tuple(field.name for field in fields(ToolCallRecord))


def step_record(step: Step) -> StepRecord:
    """A stored step as the engine knows it: the inverse of the rows made here."""
    return StepRecord(
        index=step.index,
        text=step.text,
        reasoning=step.reasoning,
        tool_calls=[ToolCallRecord(**{k: call[k] for k in _CALL_FIELDS if k in call}) for call in step.tool_calls],
        finish_reason=step.finish_reason,
        input_tokens=step.input_tokens,
        output_tokens=step.output_tokens,
        logprob_sum=step.logprob_sum,
        entropy_mean=step.entropy_mean,
        step_reward=step.step_reward,
        reference_logprob=step.reference_logprob,
        milliseconds=step.milliseconds,
    )
