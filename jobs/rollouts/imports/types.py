"""Imported rollouts before they are stored. Portable: standard library only."""

from dataclasses import dataclass, field
from typing import Any

from jobs.rollouts.engine.types import StepRecord


@dataclass(frozen=True)
class Flag:
    """An oddity met on import: shown with the rollout, never a reason to lose a step."""

    code: str
    where: str
    message: str

    def as_dict(self) -> dict[str, str]:
        return {"code": self.code, "where": self.where, "message": self.message}


@dataclass
class ImportedRollout:
    """One rollout as a file told it."""

    key: str  # its id in the file
    group: str = ""  # what names its item; empty when only the prompt does
    steps: list[StepRecord] = field(default_factory=list)
    reward: float | None = None
    sub_rewards: dict[str, float | None] = field(default_factory=dict)
    passed: bool | None = None
    answer: str = ""
    error: str = ""
    stop_reason: str = "answered"
    title: str = ""
    prompt: list[dict[str, Any]] = field(default_factory=list)
    trace_id: str = ""
    policy: str = ""
    started_at: float | None = None  # Unix seconds
    seconds: float | None = None
    input_tokens: int | None = None  # None: the sum over steps
    output_tokens: int | None = None
    cost_usd: float | None = None
    advantage: float | None = None
    calls: int | None = None  # calls as the model wrote them; None: all that the steps hold
    extra: dict[str, Any] = field(default_factory=dict)
    flags: list[Flag] = field(default_factory=list)

    @property
    def n_calls(self) -> int:
        return sum(len(step.tool_calls) for step in self.steps) if self.calls is None else self.calls

    def flag(self, code: str, where: str, message: str) -> None:
        self.flags.append(Flag(code, where, message))


@dataclass
class Imported:
    """A whole file."""

    format: str
    rollouts: list[ImportedRollout] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """What the command prints."""
        flags = [flag.as_dict() for flag in self.flags]
        for rollout in self.rollouts:
            flags += [flag.as_dict() for flag in rollout.flags]
        return {
            "format": self.format,
            "rollouts": len(self.rollouts),
            "steps": sum(len(rollout.steps) for rollout in self.rollouts),
            "tool_calls": sum(rollout.n_calls for rollout in self.rollouts),
            "flags": flags,
        }


class Unreadable(ValueError):
    """The file cannot be imported; the message says what it is and what to do."""
