"""What a job will take and cost: a formula that is shown, with a range, and checked against the truth. Portable."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from jobs.plan import Derived

#: Training costs about as much again as the rollouts it learns from, when nothing better is known.
TRAIN_SHARE = 2.0
#: Validation rollouts need no update, so they count for this much of a train rollout.
VALIDATION_WEIGHT = 0.5
#: Without earlier jobs the truth may lie this far off to either side.
BLIND_FACTOR = 3.0


@dataclass(frozen=True)
class PastRun:
    """An earlier job of the same agent and backend: what it took for what it did."""

    number: int
    seconds: float
    train_rollouts: int
    validation_rollouts: int

    @property
    def pace(self) -> float:
        """Seconds for one train rollout, its share of the update included."""
        return self.seconds / max(self.train_rollouts + VALIDATION_WEIGHT * self.validation_rollouts, 1)


@dataclass(frozen=True)
class Estimate:
    """Seconds and dollars with a range. None where there is nothing to go by, or no price."""

    seconds: float | None
    low: float | None
    high: float | None
    usd: float | None
    usd_high: float | None
    formula: str
    basis: str
    paces: tuple[float, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate(
    derived: Derived,
    *,
    past: Sequence[PastRun] = (),
    rollout_milliseconds: float | None = None,
    second_price: float | None = None,
) -> Estimate:
    """From earlier jobs if there are any, else from the baseline's rollout time."""
    work = derived.train_rollouts + VALIDATION_WEIGHT * derived.validation_rollouts
    paces = tuple(sorted(run.pace for run in past))
    if paces:
        pace, lowest, highest = median(paces), paces[0], paces[-1]
        spread = 1.25 if len(paces) < 3 else 1.1
        low, high = work * lowest / spread, work * highest * spread
        basis = f"From {len(paces)} earlier {'job' if len(paces) == 1 else 'jobs'} of this agent."
    elif rollout_milliseconds:
        pace = rollout_milliseconds / 1000 * TRAIN_SHARE
        low, high = work * pace / BLIND_FACTOR, work * pace * BLIND_FACTOR
        basis = "A rough guess from the baseline's rollout time; no job of this agent has run yet."
    else:
        return Estimate(
            None, None, None, None, None, "", "Nothing to go by: no job has run, and the baseline has no times."
        )
    seconds = work * pace
    formula = (
        f"({derived.train_rollouts:,} + {VALIDATION_WEIGHT:g} × {derived.validation_rollouts:,}) rollouts × "
        f"{pace * 1000:,.0f} ms"
    )
    priced = second_price is not None
    return Estimate(
        seconds, low, high, seconds * second_price if priced else None, high * second_price if priced else None, formula,
        basis, paces,
    )  # fmt: skip


def verdict_on(estimated: dict[str, Any] | None, seconds: float | None) -> str:
    """How the estimate held, once the run has ended."""
    if not estimated or not estimated.get("seconds") or not seconds:
        return ""
    ratio = seconds / estimated["seconds"]
    inside = estimated["low"] <= seconds <= estimated["high"]
    return f"It took {ratio:.2f} of the estimated time, {'inside' if inside else 'outside'} the range."
