"""A try and what became of it, as plain data."""

from dataclasses import dataclass, field
from typing import Any

from jobs.rollouts.engine.types import Trajectory


@dataclass(frozen=True)
class Try:
    """One try to run. `chance` seeds its sampling: the same in every run with the same seed; `trace_id` is its own."""

    key: str
    item: dict[str, Any]
    sample_index: int
    trace_id: str
    chance: str


@dataclass
class Tokens:
    """A rollout as the trainer needs it. `mask` is 1 where the policy wrote; `turns` are spans of its steps."""

    prompt: list[int] = field(default_factory=list)
    completion: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    turns: list[tuple[int, int]] = field(default_factory=list)

    def add(self, ids: list[int], *, logprobs: list[float] | None = None) -> None:
        wrote = logprobs is not None
        if wrote:
            self.turns.append((len(self.completion), len(self.completion) + len(ids)))
        self.completion += ids
        self.logprobs += logprobs if wrote else [0.0] * len(ids)
        self.mask += [int(wrote)] * len(ids)


@dataclass
class Outcome:
    """What became of one try."""

    trial: Try
    trajectory: Trajectory
    tokens: Tokens
