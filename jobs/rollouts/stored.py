"""Stored rollouts as the engine and the graders see them. Reads only."""

from typing import Any

from graders.types import Sample
from jobs.rollouts.engine.sample import sample_of
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory
from jobs.rollouts.models import Rollout, Step

_CALL_FIELDS = ("id", "name", "arguments", "result", "is_error", "milliseconds", "notes")


def stored_sample(rollout: Rollout) -> Sample:
    """What a grader sees of a rollout; load it with its batch's agent version and its steps."""
    agent = rollout.batch.agent_version
    return sample_of(stored_trajectory(rollout), agent.response_format if agent else None)


def stored_trajectory(rollout: Rollout) -> Trajectory:
    steps = [_step(row) for row in sorted(rollout.steps.all(), key=lambda row: row.index)]
    return Trajectory(steps=steps, stop_reason=rollout.stop_reason, answer=rollout.answer)


def _step(row: Step) -> StepRecord:
    return StepRecord(
        index=row.index,
        text=row.text,
        reasoning=row.reasoning,
        tool_calls=[_call(call) for call in whole_calls(row)],
        finish_reason=row.finish_reason,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        logprob_sum=row.logprob_sum,
        entropy_mean=row.entropy_mean,
        started_at=row.started_at.timestamp() if row.started_at else None,
        milliseconds=row.milliseconds,
    )


def whole_calls(row: Step) -> list[dict[str, Any]]:
    """The calls with their results; what is kept apart because of its size is put back."""
    calls = row.tool_calls or []
    if not any("result_digest" in call for call in calls):
        return calls
    kept = {large.call: large.text for large in row.large_results.all()}
    return [{**call, "result": kept.get(place, call.get("result", ""))} for place, call in enumerate(calls)]


def _call(call: dict[str, Any]) -> ToolCallRecord:
    return ToolCallRecord(**{key: call[key] for key in _CALL_FIELDS if key in call})
