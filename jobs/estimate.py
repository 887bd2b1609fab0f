"""What a job will take and cost: a formula that is shown, with a range, and checked against the truth. Portable."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from jobs.plan import Derived

#: Loading torch, TRL and the model, before the first rollout.
START_SECONDS = 10.0
#: Training costs about as much again as the rollouts it learns from, when nothing better is known.
TRAIN_SHARE = 2.0
#: Validation rollouts need no update, so they count for this much of a train rollout.
VALIDATION_WEIGHT = 0.5
#: With fewer than three earlier jobs the truth may lie this far off to either side.
BLIND_FACTOR = 3.0
#: The same machine on a busy day, once three jobs or more have shown its span.
SEEN_FACTOR = 1.5
#: A demonstration is learnt from and not tried, so it counts for this much of a train rollout.
DEMONSTRATION_WEIGHT = 0.5


@dataclass(frozen=True)
class PastRun:
    """An earlier job of the same agent and backend: what it took for what it did."""

    number: int
    seconds: float
    train_rollouts: int
    validation_rollouts: int
    demonstrations: int = 0

    @property
    def pace(self) -> float:
        """Seconds for one train rollout, its share of the update included."""
        return max(self.seconds - START_SECONDS, self.seconds / 5) / max(work_of(self), 1)


def work_of(done: PastRun | Derived) -> float:
    """Work in train rollouts: a validation rollout needs no update, a demonstration no try."""
    return (
        done.train_rollouts + VALIDATION_WEIGHT * done.validation_rollouts + DEMONSTRATION_WEIGHT * done.demonstrations
    )


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
    jobs: tuple[int, ...] = ()  # the numbers of the earlier jobs, as their paces stand

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def seconds_at(pace: float, derived: Derived) -> float:
    """What this work takes at that pace."""
    return START_SECONDS + work_of(derived) * pace


def estimate(
    derived: Derived,
    *,
    past: Sequence[PastRun] = (),
    rollout_seconds: float | None = None,
    second_price: float | None = None,
) -> Estimate:
    """From earlier jobs if there are any, else from the pace of the baseline's rollouts."""
    runs = sorted(past, key=lambda run: run.pace)
    paces = tuple(run.pace for run in runs)
    if paces:
        pace, lowest, highest = median(paces), paces[0], paces[-1]
        spread = BLIND_FACTOR if len(paces) < 3 else SEEN_FACTOR
        low, high = seconds_at(lowest / spread, derived), seconds_at(highest * spread, derived)
        basis = f"From {len(paces)} earlier {'job' if len(paces) == 1 else 'jobs'} of this agent."
    elif rollout_seconds:
        pace = rollout_seconds * TRAIN_SHARE
        low, high = seconds_at(pace / BLIND_FACTOR, derived), seconds_at(pace * BLIND_FACTOR, derived)
        basis = (
            "A rough guess from the pace of the baseline's rollouts; no job of this agent has run yet. The job's page says "
            "what is left from its first train steps on."
        )
    else:
        return Estimate(
            None, None, None, None, None, "", "Nothing to go by: no job has run, and the baseline has no times."
        )
    seconds = seconds_at(pace, derived)
    priced = second_price is not None
    return Estimate(
        seconds, low, high, seconds * second_price if priced else None, high * second_price if priced else None,
        formula_of(derived, pace), basis, paces, tuple(run.number for run in runs),
    )  # fmt: skip


def formula_of(derived: Derived, pace: float) -> str:
    """The sum as a person can check it."""
    parts = [f"{derived.train_rollouts:,}"] if derived.train_rollouts else []
    if derived.demonstrations:
        parts.append(f"{DEMONSTRATION_WEIGHT:g} × {derived.demonstrations:,} demonstrations")
    if derived.validation_rollouts:
        parts.append(f"{VALIDATION_WEIGHT:g} × {derived.validation_rollouts:,}")
    return f"{START_SECONDS:g} s to start + ({' + '.join(parts)}) rollouts × {pace * 1000:,.3g} ms"


def held(estimated: dict[str, Any] | None, seconds: float | None) -> bool | None:
    """Whether the truth lies in the range that was shown; None where either is not known."""
    if not estimated or estimated.get("low") is None or not seconds:
        return None
    return bool(estimated["low"] <= seconds <= estimated["high"])
