"""What the grader sees of a trajectory. Portable: standard library only."""

import json
from typing import Any

from graders.types import Sample
from jobs.rollouts.engine.types import Trajectory


def sample_of(trajectory: Trajectory, response_format: dict[str, Any] | None = None) -> Sample:
    """The trajectory's answer in the wire's `sample` shape, with every call of the rollout in `output_tools`."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in trajectory.tool_calls
    ]
    last = trajectory.steps[-1] if trajectory.steps else None
    last_calls = calls[len(calls) - len(last.tool_calls) :] if last and last.tool_calls else []
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": trajectory.answer, "tool_calls": last_calls},
        "finish_reason": (last.finish_reason if last else "") or "stop",
    }
    reasoning = "\n\n".join(step.reasoning for step in trajectory.steps if step.reasoning)
    return Sample(
        output_text=trajectory.answer,
        output_json=_json_of(trajectory.answer, response_format),
        output_tools=calls,
        choices=[choice],
        output_reasoning_summary=reasoning or None,
        steps=trajectory.as_dict()["steps"],
        usage={"input_tokens": trajectory.input_tokens, "output_tokens": trajectory.output_tokens},
    )


def _json_of(text: str, response_format: dict[str, Any] | None) -> Any:
    """The answer as JSON where the agent asked for JSON; None when it is none."""
    if not response_format or response_format.get("type") not in {"json_schema", "json_object"}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
