"""What an attribution method takes and gives. Portable: standard library only."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class CreditStep:
    """One step as a method sees it. Tool calls of one turn are one step with several calls."""

    kind: str  # "tool" or "answer"
    name: str = ""  # tool name(s), joined by "+" for parallel calls
    arguments: str = ""
    result: str = ""
    tokens: int = 1  # what the policy wrote in this step, at least 1
    is_error: bool = False
    step_reward: float | None = None
    reference_logprob: float | None = None  # nats per token of the reference answer after this step


@dataclass
class CreditRollout:
    """One rollout of a group. `reward` None is ungraded: it gets no credit and leaves baselines."""

    rollout: str
    group: str
    reward: float | None
    steps: list[CreditStep] = field(default_factory=list)
    reference_logprob: float | None = None  # before the first step


@dataclass
class Credit:
    """Shares of one rollout. Law: for complete methods the credits sum to reward − baseline within 1e-9."""

    rollout: str
    method: str
    baseline: float
    credits: list[float]
    low: list[float | None]
    high: list[float | None]
    support: list[int]
    is_complete: bool = True
    detail: list[dict[str, Any]] = field(default_factory=list)
