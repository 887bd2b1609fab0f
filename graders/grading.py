"""Compiles a recipe once and grades samples with it. Portable.

A grade is never NaN and never a silent 0: what could not be graded has reward None, a flag and a reason.
"""

import math
from time import perf_counter
from typing import Any

from graders.clients import GraderClients
from graders.failures import GraderInvalid, Ungraded
from graders.kinds.base import Config, Scorer, Workshop
from graders.kinds.registry import KINDS
from graders.types import Grade, Sample
from graders.validation import grader_problems, has_errors, is_costly, normalised


class CompiledGrader:
    """A recipe ready to grade. Threads may share it; `close` ends what it keeps warm."""

    def __init__(self, config: Config, clients: GraderClients) -> None:
        self.config = config
        self.kind: str = config["type"]
        self.name: str = config["name"]
        self.is_costly = is_costly(config)
        self._workshop = Workshop(clients, lambda child: self._child(child, clients))
        self._score: Scorer = KINDS[self.kind].compile(config, self._workshop)

    def _child(self, config: Config, clients: GraderClients) -> "CompiledGrader":
        child = CompiledGrader(config, clients)
        self._workshop.variables.update(child._workshop.variables)
        self._workshop.closers.append(child.close)
        self._workshop.preparers.append(child.prepare)
        return child

    def grade(self, item: dict[str, Any], sample: Sample, trace_id: str = "") -> Grade:
        """Grade one sample. Never raises for what the sample or the item holds."""
        started = perf_counter()
        try:
            answer = self._score(item, sample, trace_id)
            if answer.__class__ is not Grade:
                answer = Grade(answer)
        except Ungraded as failure:
            answer = failure.grade()
        except Exception as exc:  # a recipe meets data that nobody foresaw; the batch goes on
            answer = Grade(None, errors={"other_error": True}, details=f"{type(exc).__name__}: {exc}"[:500])
        reward = answer.reward
        if reward is not None and not -math.inf < reward < math.inf:
            answer.reward = None
            answer.errors["other_error"] = True
            answer.details = f"The reward is {reward}, which is not a finite number."
        elif reward is None and not answer.errors:
            answer.errors["other_error"] = True
        answer.milliseconds = (perf_counter() - started) * 1000.0
        return answer

    def prepare(self) -> None:
        """Look up what grading needs, such as where a judge lives, in this thread: those that grade then need not."""
        for prepare in self._workshop.preparers:
            prepare()

    def variables(self) -> set[str]:
        """Template paths it reads, such as `item.reference_answer`."""
        return {str(variable) for variable in self._workshop.variables}

    def close(self) -> None:
        for close in self._workshop.closers:
            close()

    def __enter__(self) -> "CompiledGrader":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def compile_grader(config: dict[str, Any], clients: GraderClients | None = None) -> CompiledGrader:
    """Check a recipe and make it ready; GraderInvalid lists what is wrong."""
    problems = grader_problems(config)
    if has_errors(problems):
        raise GraderInvalid([problem for problem in problems if problem.level == "error"])
    return CompiledGrader(normalised(config), clients or GraderClients())
