"""A formula said in words, the range it can give, and what each part adds to one reward. Portable."""

import itertools
import random
from dataclasses import dataclass

from graders.formula import Formula, FormulaError

_TENTHS = {1: "one tenth", 2: "two tenths", 3: "three tenths", 4: "four tenths", 5: "half", 6: "six tenths",
           7: "seven tenths", 8: "eight tenths", 9: "nine tenths"}  # fmt: skip
_SHARES = {0.25: "a quarter of", 0.75: "three quarters of", 1.0: "all of", 0.333: "a third of", 0.667: "two thirds of"}
STEP = 1e-4


@dataclass(frozen=True)
class Range:
    """The least and the most the formula gave over the corners of its parts' ranges."""

    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """What one part adds: `weight` is how much the reward moves with it here, `adds` is weight × value."""

    name: str
    weight: float
    adds: float


def formula_range(formula: Formula, ranges: dict[str, tuple[float, float]]) -> Range | None:
    """None when it has no result anywhere."""
    names = sorted(formula.names)[:10]
    fixed = {name: ranges.get(name, (0.0, 1.0))[1] for name in formula.names}
    found = []
    for corner in itertools.product(*(ranges.get(name, (0.0, 1.0)) for name in names)):
        try:
            found.append(formula.compute({**fixed, **dict(zip(names, corner, strict=True))}))
        except FormulaError:
            continue
    return Range(min(found), max(found)) if found else None


def formula_shares(formula: Formula, values: dict[str, float]) -> list[Share]:
    """How the reward of one sample comes about; empty where a sum of parts would be untrue."""
    try:
        whole = formula.compute(values)
        shares = [
            Share(name, weight := _slope(formula, values, name), weight * values[name])
            for name in values
            if name in formula.names
        ]
    except FormulaError:
        return []
    return shares if abs(sum(share.adds for share in shares) - whole) < 1e-6 else []


def _slope(formula: Formula, values: dict[str, float], name: str) -> float:
    """Measured towards the middle, so that a cap at 1 or 0 does not flatten it."""
    step = -STEP if values[name] > 0.5 else STEP
    moved = formula.compute({**values, name: values[name] + step})
    return round((moved - formula.compute(values)) / step, 6)


def formula_words(formula: Formula, names: dict[str, str] | None = None) -> str:
    """ "six tenths conclusion, three tenths citations, one tenth payer", or which part counts most."""
    names = names or {}
    parts = sorted(formula.names)
    if not parts:
        return "always the same number"
    slopes = _linear_slopes(formula, parts)
    if slopes is None:
        return _by_weight(formula, parts, names)
    order = sorted(parts, key=lambda name: -abs(slopes[name]))
    said = [f"{_share(abs(slopes[name]))} {names.get(name, name)}" for name in order if slopes[name] > 0]
    less = [f"{_share(abs(slopes[name]))} {names.get(name, name)}" for name in order if slopes[name] < 0]
    return ", ".join(said) + (f", less {', '.join(less)}" if less else "")


def _share(weight: float) -> str:
    rounded = round(weight, 3)
    if rounded in _SHARES:
        return _SHARES[rounded]
    tenths = round(weight * 10)
    if abs(weight * 10 - tenths) < 1e-6 and tenths in _TENTHS:
        return _TENTHS[tenths]
    return f"{weight:g} of" if weight < 1 else f"{weight:g} times"


def _linear_slopes(formula: Formula, parts: list[str]) -> dict[str, float] | None:
    """The weights, when the formula is one weighted sum wherever it is not cut at an end."""
    chance = random.Random(0)  # noqa: S311
    seen: list[dict[str, float]] = []
    for _ in range(6):
        point = {name: chance.uniform(0.2, 0.8) for name in parts}
        try:
            seen.append({name: _slope(formula, point, name) for name in parts})
        except FormulaError:
            return None
    moving = [slopes for slopes in seen if any(abs(slope) > 1e-6 for slope in slopes.values())]
    if not moving or any(abs(slopes[name] - moving[0][name]) > 1e-4 for slopes in moving for name in parts):
        return None
    return {name: round(moving[0][name], 4) for name in parts}


def _by_weight(formula: Formula, parts: list[str], names: dict[str, str]) -> str:
    middle = dict.fromkeys(parts, 0.5)
    try:
        slopes = {name: _slope(formula, middle, name) for name in parts}
    except FormulaError:
        return "no plain sum; parts depend on each other"
    order = sorted(parts, key=lambda name: -abs(slopes[name]))
    counted = ", then ".join(f"{names.get(name, name)} ({slopes[name]:+.2f})" for name in order[:4])
    return f"no plain sum. From the middle, most depends on {counted}"
