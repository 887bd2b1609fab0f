"""How a grader says that it could not grade. Portable: standard library only."""

from graders.types import Grade, Problem


class Ungraded(Exception):
    """This sample gets no reward. `flag` is a key of `types.NO_ERRORS`; `extra` fills its companion keys."""

    def __init__(self, flag: str, details: str, **extra: str) -> None:
        super().__init__(details)
        self.flag = flag
        self.details = details
        self.extra = extra

    def grade(self) -> Grade:
        return Grade(reward=None, errors={self.flag: True, **self.extra}, details=self.details)


class GraderInvalid(ValueError):
    """The recipe cannot be compiled; `problems` says why."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__(" ".join(f"{problem.path}: {problem.message}" for problem in problems))


class SandboxUnavailable(Exception):
    """Python cannot be confined here, so it is not run at all."""
