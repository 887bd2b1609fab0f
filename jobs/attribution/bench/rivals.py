"""Cheap guesses that a method must beat: position, length, errors, nothing at all."""

from collections.abc import Callable

from jobs.attribution.types import CreditRollout

Scores = Callable[[CreditRollout, float], list[float]]


def _one(count: int, place: int, size: float) -> list[float]:
    return [size if index == place else 0.0 for index in range(count)]


def first(rollout: CreditRollout, advantage: float) -> list[float]:
    return _one(len(rollout.steps), 0, advantage)


def last(rollout: CreditRollout, advantage: float) -> list[float]:
    return _one(len(rollout.steps), len(rollout.steps) - 1, advantage)


def longest(rollout: CreditRollout, advantage: float) -> list[float]:
    sizes = [step.tokens for step in rollout.steps]
    return _one(len(sizes), sizes.index(max(sizes)), advantage)


def error_step(rollout: CreditRollout, advantage: float) -> list[float]:
    """The first failed call; the last step when none failed."""
    wrong = [index for index, step in enumerate(rollout.steps) if step.is_error]
    return _one(len(rollout.steps), wrong[0] if wrong else len(rollout.steps) - 1, advantage)


def uniform(rollout: CreditRollout, advantage: float) -> list[float]:
    whole = sum(step.tokens for step in rollout.steps)
    return [advantage * step.tokens / whole for step in rollout.steps]


RIVALS: dict[str, Scores] = {
    "first": first,
    "last": last,
    "longest": longest,
    "error_step": error_step,
    "uniform": uniform,
}
