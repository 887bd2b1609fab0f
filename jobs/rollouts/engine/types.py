"""A rollout as plain data. Portable: standard library only; the trainer process uses it too."""

from dataclasses import dataclass, field
from typing import Any

# The tools room lies below this one and owns these two; they are part of the engine's words all the same.
from jobs.agents.tools.types import Limits, ToolResult

__all__ = [
    "Limits",
    "PolicyError",
    "PolicyReply",
    "StepRecord",
    "ToolCallRecord",
    "ToolResult",
    "Trajectory",
    "trajectory_from_dict",
]


@dataclass
class ToolCallRecord:
    """One tool call and what came back."""

    id: str
    name: str
    arguments: str  # the JSON text exactly as the model wrote it
    result: str = ""
    is_error: bool = False
    milliseconds: float = 0.0
    notes: list[str] = field(default_factory=list)  # e.g. "the model gave no call id; one was made"


@dataclass
class StepRecord:
    """One turn: a policy message and the tool results it caused."""

    index: int
    text: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCallRecord] = field(default_factory=list)
    finish_reason: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    logprob_sum: float | None = None  # nats, over the policy's tokens
    entropy_mean: float | None = None  # nats, mean over the policy's tokens
    step_reward: float | None = None
    reference_logprob: float | None = None  # nats per token of the item's reference answer, given all up to this step
    started_at: float | None = None  # Unix seconds, UTC
    milliseconds: float | None = None


@dataclass
class Trajectory:
    """A rollout's steps and how it ended. `stop_reason` takes the values of `Rollout.StopReason`."""

    steps: list[StepRecord] = field(default_factory=list)
    stop_reason: str = ""
    answer: str = ""
    error: str = ""  # for a person, without secrets; empty when the rollout is sound
    started_at: float | None = None
    milliseconds: float | None = None

    @property
    def tool_calls(self) -> list[ToolCallRecord]:
        return [call for step in self.steps for call in step.tool_calls]

    @property
    def output_tokens(self) -> int:
        return sum(step.output_tokens for step in self.steps)

    @property
    def input_tokens(self) -> int:
        return sum(step.input_tokens for step in self.steps)

    @property
    def is_failed(self) -> bool:
        """Ended by a fault outside the policy, so it must not be graded as if the policy had chosen it."""
        return self.stop_reason in {"tool_failed", "model_failed", "grader_failed", "studio_failed", "cancelled"}

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts and lists; written out because `dataclasses.asdict` copies every text and number by itself."""
        return {**vars(self), "steps": [_step_dict(step) for step in self.steps]}


def _step_dict(step: StepRecord) -> dict[str, Any]:
    return {**vars(step), "tool_calls": [{**vars(call), "notes": list(call.notes)} for call in step.tool_calls]}


def trajectory_from_dict(data: dict[str, Any]) -> Trajectory:
    """The inverse of `Trajectory.as_dict`."""
    steps = [
        StepRecord(**{**step, "tool_calls": [ToolCallRecord(**call) for call in step.get("tool_calls", [])]})
        for step in data.get("steps", [])
    ]
    return Trajectory(**{**data, "steps": steps})


@dataclass
class PolicyReply:
    """One answer of the policy, in the shape of a Chat Completions assistant message."""

    text: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)  # [{id, type, function: {name, arguments}}]
    finish_reason: str = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    logprob_sum: float | None = None
    entropy_mean: float | None = None
    opaque: dict[str, Any] = field(default_factory=dict)  # what the policy needs back next turn


class PolicyError(Exception):
    """The model did not answer. `transient` faults were already retried."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
