"""From outcomes to graded records. Grading is the portable room's; this adds what the trainer needs to know about it."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from graders.types import Grade
from jobs.backends.trl.tries import Outcome
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.engine.sample import sample_of

#: Kinds that wait for something outside this process, so that grading them one by one would hold a step up.
SLOW_KINDS = {"python", "endpoint", "score_model", "label_model"}


@dataclass
class Scored:
    """One graded try. `reward` is what is trained on: None leaves the try out of its group and of the update."""

    outcome: Outcome
    grade: Grade
    advantage: float | None = None

    @property
    def reward(self) -> float | None:
        return self.grade.reward

    def record(self, extra: dict[str, Any]) -> dict[str, Any]:
        """The try as the journal tells of it."""
        trial = self.outcome.trial
        return RolloutRecord(
            item_key=trial.key,
            sample_index=trial.sample_index,
            trace_id=trial.trace_id,
            trajectory=self.outcome.trajectory,
            grade=self.grade.as_dict(),
            advantage=self.advantage,
            extra=extra,
        ).as_dict()


class Scorer:
    """Grades outcomes with a compiled grader, several at once where the grader is slow."""

    def __init__(
        self, compiled: Any, config: dict[str, Any], *, response_format: dict | None, workers: int = 8
    ) -> None:
        self.compiled, self.config, self.response_format = compiled, config, response_format
        is_slow = any(part.get("type") in SLOW_KINDS for part in grader_parts(config).values())
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="grade") if is_slow and workers > 1 else None

    def score(self, outcomes: list[Outcome]) -> list[Scored]:
        grades = self.pool.map(self._grade, outcomes) if self.pool else map(self._grade, outcomes)
        return [Scored(outcome, grade) for outcome, grade in zip(outcomes, grades, strict=True)]

    def _grade(self, outcome: Outcome) -> Grade:
        """A failed rollout is not graded: its end was not the policy's doing."""
        trajectory = outcome.trajectory
        if trajectory.is_failed:
            return Grade(reward=None, details=f"Not graded: {trajectory.error or trajectory.stop_reason}")
        sample = sample_of(trajectory, self.response_format)
        grade = self.compiled.grade(outcome.trial.item, sample, trace_id=outcome.trial.trace_id)
        if grade.reward is not None and not math.isfinite(grade.reward):
            return Grade(reward=None, errors={"other_error": True}, details="The reward is not a finite number.")
        return grade

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown(wait=False, cancel_futures=True)
        self.compiled.close()


def grader_parts(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The named graders of a recipe: those of a multi, or the one that it is."""
    parts = config.get("graders")
    if config.get("type") == "multi" and isinstance(parts, dict):
        return {name: part for name, part in parts.items() if isinstance(part, dict)}
    return {config.get("name") or config.get("type") or "grader": config}
