"""How far a grader agrees with people: rank correlation, agreement at the pass mark, and a taste for length. Portable."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graders.types import is_pass

RESAMPLES = 400
INTERVAL = 0.90
SAME = 1e-9


@dataclass(frozen=True)
class Pair:
    """One sample that a person labelled and the grader graded; both from 0 to 1 by their own range."""

    id: str
    reward: float
    label: float
    length: int = 0


@dataclass(frozen=True)
class Measured:
    """A number with its 90 % interval by resampling."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LengthBand:
    """A third of the samples by length: how much more the grader gave there than people did, on average."""

    low: int
    high: int
    count: int
    gap: float


@dataclass(frozen=True)
class Calibration:
    """`confusion` counts (grader passes, person passes). `length_bias` is the rank correlation of length with how
    much the grader gave above the person: above 0 it likes long answers more than people do."""

    count: int
    spearman: Measured | None
    agreement: Measured
    kappa: float | None
    confusion: dict[tuple[bool, bool], int]
    length_bias: Measured | None
    by_length: list[LengthBand]
    disagreements: list[Pair]


def calibrate(pairs: Sequence[Pair], *, pass_mark: float = 0.5, label_mark: float = 0.5) -> Calibration | None:
    """None without pairs."""
    if not pairs:
        return None
    confusion = {(ours, theirs): 0 for ours in (True, False) for theirs in (True, False)}
    for pair in pairs:
        confusion[is_pass(pair.reward, pass_mark), pair.label >= label_mark] += 1

    def agreement(some: Sequence[Pair]) -> float:
        return sum(is_pass(p.reward, pass_mark) == (p.label >= label_mark) for p in some) / len(some)

    return Calibration(
        count=len(pairs),
        spearman=_measured(pairs, lambda some: spearman([p.reward for p in some], [p.label for p in some])),
        agreement=_measured(pairs, agreement) or Measured(agreement(pairs), 0.0, 1.0),
        kappa=cohen_kappa(confusion),
        confusion=confusion,
        length_bias=_measured(
            pairs, lambda some: spearman([p.reward - p.label for p in some], [float(p.length) for p in some])
        ),
        by_length=by_length(pairs),
        disagreements=_disagreements(pairs, pass_mark, label_mark),
    )


def _disagreements(pairs: Sequence[Pair], pass_mark: float, label_mark: float) -> list[Pair]:
    """Where one passes and the other does not first, then by how far they lie apart; none where they say the same."""

    def order(pair: Pair) -> tuple[bool, float]:
        return is_pass(pair.reward, pass_mark) == (pair.label >= label_mark), -abs(pair.reward - pair.label)

    return sorted((pair for pair in pairs if abs(pair.reward - pair.label) > SAME), key=order)[:50]


def by_length(pairs: Sequence[Pair]) -> list[LengthBand]:
    """Short, middle and long answers; empty with fewer than six or when all are as long."""
    if len(pairs) < 6 or len({pair.length for pair in pairs}) < 3:
        return []
    ordered = sorted(pairs, key=lambda pair: pair.length)
    third = len(ordered) / 3
    parts = [ordered[round(n * third) : round((n + 1) * third)] for n in range(3)]
    return [
        LengthBand(part[0].length, part[-1].length, len(part), sum(p.reward - p.label for p in part) / len(part))
        for part in parts
    ]


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Rank correlation with ties; None where one side does not vary."""
    if len(left) < 3:
        return None
    a, b = _ranks(left), _ranks(right)
    mean = (len(a) - 1) / 2
    top = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    below = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return top / below if below else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            ranks[place] = (start + end) / 2
        start = end + 1
    return ranks


def cohen_kappa(confusion: dict[tuple[bool, bool], int]) -> float | None:
    """Agreement beyond chance; None where chance agrees always."""
    total = sum(confusion.values())
    seen = (confusion[True, True] + confusion[False, False]) / total
    ours = (confusion[True, True] + confusion[True, False]) / total
    theirs = (confusion[True, True] + confusion[False, True]) / total
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    return (seen - chance) / (1 - chance) if chance < 1 else None


def _measured(pairs: Sequence[Pair], measure: Callable[[Sequence[Pair]], float | None]) -> Measured | None:
    value = measure(pairs)
    if value is None:
        return None
    chance = random.Random(len(pairs))  # noqa: S311
    found = [measure(chance.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES)]
    ordered = sorted(each for each in found if each is not None)
    if not ordered:
        return Measured(value, value, value)
    cut = (1 - INTERVAL) / 2
    return Measured(
        value, ordered[int(cut * len(ordered))], ordered[min(len(ordered) - 1, int((1 - cut) * len(ordered)))]
    )
