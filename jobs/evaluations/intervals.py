"""Intervals for means and shares. Portable: standard library only. Every interval here is a 90 % one."""

import math
from statistics import NormalDist

LEVEL = 0.90
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


def t_quantile(degrees: int) -> float:
    """The two-sided 90 % point of Student's t; exact for 1 and 2 degrees, within 0.3 % above."""
    if degrees < 1:
        raise ValueError("An interval needs at least two values.")
    p = 0.5 + LEVEL / 2
    if degrees == 1:
        return math.tan(math.pi * (p - 0.5))
    if degrees == 2:
        return 2 * (p - 0.5) * math.sqrt(2 / (4 * p * (1 - p)))
    z, v = _Z, degrees
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def wilson(successes: float, trials: float) -> tuple[float, float] | None:
    """Wilson's interval of a share; None without trials. `trials` may be an effective (fractional) number."""
    if trials <= 0:
        return None
    share, z2 = successes / trials, _Z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return max(0.0, centre - half), min(1.0, centre + half)


def clustered_error(groups: list[list[float]]) -> tuple[float, int] | None:
    """Standard error of the mean over all values when values of one group resemble each other, and its degrees.

    The linearised ratio estimator over groups; with one group only, the plain error over its values. None when
    there are fewer than two values to compare.
    """
    groups = [group for group in groups if group]
    total = sum(len(group) for group in groups)
    if total < 2:
        return None
    mean = sum(map(sum, groups)) / total
    if len(groups) == 1:
        variance = sum((value - mean) ** 2 for value in groups[0]) / (total - 1)
        return math.sqrt(variance / total), total - 1
    count = len(groups)
    between = sum((sum(group) - len(group) * mean) ** 2 for group in groups)
    return math.sqrt(between * count / (count - 1)) / total, count - 1


def mean_interval(groups: list[list[float]]) -> tuple[float, float] | None:
    """t interval of the mean over all values, groups counted as clusters."""
    error = clustered_error(groups)
    if error is None:
        return None
    values = [value for group in groups for value in group]
    mean = sum(values) / len(values)
    half = t_quantile(error[1]) * error[0]
    return mean - half, mean + half


def share_interval(groups: list[list[bool]]) -> tuple[float, float] | None:
    """Wilson's interval of a share, with as many trials as the groups' likeness leaves (never more than there are)."""
    numbers = [[float(value) for value in group] for group in groups if group]
    total = sum(map(len, numbers))
    if not total:
        return None
    share = sum(map(sum, numbers)) / total
    error = clustered_error(numbers)
    effective = float(total)
    if error and error[0] > 0 and 0 < share < 1:
        effective = min(float(total), max(1.0, share * (1 - share) / error[0] ** 2))
    return wilson(share * effective, effective)
