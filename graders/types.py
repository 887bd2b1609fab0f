"""What a grader sees and what it answers. Portable: standard library only."""

from dataclasses import dataclass, field
from typing import Any

#: The 14 keys of the wire format's `metadata.errors`, with their empty values.
NO_ERRORS: dict[str, Any] = {
    "formula_parse_error": False,
    "sample_parse_error": False,
    "truncated_observation_error": False,
    "unresponsive_reward_error": False,
    "invalid_variable_error": False,
    "other_error": False,
    "python_grader_server_error": False,
    "python_grader_server_error_type": None,
    "python_grader_runtime_error": False,
    "python_grader_runtime_error_details": None,
    "model_grader_server_error": False,
    "model_grader_refusal_error": False,
    "model_grader_parse_error": False,
    "model_grader_server_error_details": None,
}


@dataclass
class Sample:
    """One model answer as a grader sees it; the keys of the wire format's `sample`.

    `output_tools` holds every call of the rollout, in order, in Chat Completions form with
    `arguments` as a JSON string. `steps` is ours: the trajectory as plain dicts, for per-step graders.
    """

    output_text: str = ""
    output_json: Any = None
    output_tools: list[dict[str, Any]] = field(default_factory=list)
    choices: list[dict[str, Any]] = field(default_factory=list)
    output_reasoning_summary: str | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "output_text": self.output_text,
            "output_json": self.output_json,
            "output_tools": self.output_tools,
            "choices": self.choices,
            "output_reasoning_summary": self.output_reasoning_summary,
            "steps": self.steps,
            "usage": self.usage,
        }


@dataclass
class Grade:
    """A grader's whole answer. `reward` None is ungraded, which is not 0; it is never NaN or infinite."""

    reward: float | None
    sub_rewards: dict[str, float | None] = field(default_factory=dict)
    errors: dict[str, Any] = field(default_factory=dict)  # only the keys of NO_ERRORS that are set
    details: str = ""  # one sentence for a person
    step_rewards: list[float | None] = field(default_factory=list)
    usage: dict[str, dict[str, int]] = field(default_factory=dict)  # model → token counts
    milliseconds: float = 0.0
    parts: "dict[str, Grade]" = field(default_factory=dict)  # the whole grades of a multi's parts; not on the wire

    @property
    def is_graded(self) -> bool:
        return self.reward is not None

    def wire_errors(self) -> dict[str, Any]:
        """All 14 keys of the wire format."""
        return {**NO_ERRORS, **self.errors}

    def as_dict(self) -> dict[str, Any]:
        return {
            "reward": self.reward,
            "sub_rewards": self.sub_rewards,
            "errors": self.errors,
            "details": self.details,
            "step_rewards": self.step_rewards,
            "usage": self.usage,
            "milliseconds": self.milliseconds,
        }


#: Sums of floats may miss a mark in their last bits: 0.1 + 0.7 is a pass at 0.8.
SLACK = 1e-9


def is_pass(reward: float | None, mark: float) -> bool:
    """Whether a reward reaches the pass mark."""
    return reward is not None and reward >= mark - SLACK


@dataclass(frozen=True)
class Problem:
    """What is wrong with a recipe, where, and how to mend it."""

    path: str
    code: str
    message: str
    fix: str = ""
    level: str = "error"  # or "warning"
