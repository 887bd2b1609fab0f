"""Signs that a job is not honestly learning. Each alarm states its threshold and leads to rollouts that tell. Portable.

The judging is plain arithmetic over train steps; `stop_reason` says when a job's own rules pause it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from urllib.parse import urlencode

from jobs.evaluations.facts import percent
from jobs.figures import StepFigures

OK, WARN = "ok", "warn"
MOST_GAP = 0.10
COLLAPSE = 0.25
RUNAWAY = 3.0
MOST_UNGRADED = 0.05
MOST_FLAT = 0.60
RISE, STAY = 0.10, 0.02
#: One part decides the reward when it alone explains so much of how rewards differ.
DECIDES = 0.95
#: Train steps at each end that are compared; one step alone is noise.
WINDOW = 5


@dataclass(frozen=True)
class Alarm:
    """One judgement: what was seen, since when, and which rollouts to read (a query for the rollout list)."""

    key: str
    level: str
    name: str
    text: str
    step: int | None = None  # since when; of a check, when it was made
    link: str = ""
    query: str = ""
    source: str = ""  # whose rollouts: the job's own where empty
    muted_by: str = ""  # who set it aside for this job

    @property
    def is_open(self) -> bool:
        return self.level == WARN and not self.muted_by


@dataclass(frozen=True)
class Opinion:
    """How another grader than the job's judged a checkpoint and, on the same items, the base before it."""

    step: int
    grader: str
    before: float
    after: float
    source: str


Steps = list[StepFigures]
NONE: Mapping[str, str] = {}


def _ends(values: list[float]) -> tuple[float, float] | None:
    """Means of the first and the last window; None before there are two windows apart."""
    size = min(WINDOW, len(values) // 2)
    return (fmean(values[:size]), fmean(values[-size:])) if len(values) >= 4 else None


def _signed(value: float) -> str:
    """Two decimals with a true minus."""
    return f"{value:.2f}".replace("-", "−")


def _tried(steps: Steps, **narrower: str) -> str:
    """Query for the training rollouts of the last window, and of those the ones that show what was seen."""
    last = steps[-WINDOW:]
    query = {"kind": "train_step", "train_step": f"{last[0].number}-{last[-1].number}", **narrower}
    return urlencode(query, safe=":")


def _down(value: float) -> str:
    """Rounded down, so that whatever has this mean has a member above it."""
    return f"{math.floor(value * 100) / 100:g}"


def gap_alarm(steps: Steps) -> Alarm | None:
    """Train reward far above validation: it memorises, or it games what only training rewards."""
    checked = [step for step in steps if step.validation_reward is not None]
    if not checked:
        return None
    last = checked[-1]
    near = [one.mean_reward for one in steps if abs(one.number - last.number) < 3 and one.mean_reward is not None]
    if not near:
        return None
    gap = fmean(near) - last.validation_reward
    best = max(checked, key=lambda one: one.validation_reward)
    if gap <= MOST_GAP:
        return Alarm("gap", OK, "Train and validation move together",
                     f"Gap {_signed(gap)}; a warning would come at {MOST_GAP:.2f}.", last.number)  # fmt: skip
    fell = f" Validation was best at train step {best.number} ({best.validation_reward:.2f})."
    return Alarm(
        "gap", WARN, "Train runs away from validation",
        f"At train step {last.number} train is {fmean(near):.2f} and validation {last.validation_reward:.2f}: "
        f"a gap of {gap:.{2 if gap >= MOST_GAP + 0.005 else 3}f}, more than {MOST_GAP:.2f}.{fell}",
        last.number, "Read what validation tried", f"kind=validation&train_step={last.number}",
    )  # fmt: skip


def tools_alarm(steps: Steps) -> Alarm | None:
    """Tool use falls to a quarter of what it was."""
    ends = _ends([sum(step.tools.values()) for step in steps])
    if ends is None or ends[0] < 0.5:
        return None
    if ends[1] >= COLLAPSE * ends[0]:
        return None
    return Alarm(
        "tools", WARN, "Tools are no longer used",
        f"Calls per rollout fell from {ends[0]:.1f} to {ends[1]:.1f}. Either the answers can be guessed, or calls are "
        "punished too much.",
        steps[-1].number, "Read those with few calls", _tried(steps, calls=f"0-{math.floor(COLLAPSE * ends[0])}"),
    )  # fmt: skip


def length_alarm(steps: Steps) -> Alarm | None:
    """Answers three times as long, or shrunk to a quarter while the reward rises."""
    ends = _ends([step.tokens_mean for step in steps if step.tokens_mean is not None])
    rewards = _ends([step.mean_reward for step in steps if step.mean_reward is not None])
    if ends is None or ends[0] <= 0:
        return None
    if ends[1] >= RUNAWAY * ends[0]:
        key, name, text = (
            "length",
            "Lengths run away",
            f"Tokens per rollout rose from {ends[0]:.0f} to {ends[1]:.0f}, {RUNAWAY:.0f} times or more.",
        )
        link, tokens = "Read the long ones", f"{math.floor(RUNAWAY * ends[0])}-"
    elif rewards and ends[1] <= COLLAPSE * ends[0] and rewards[1] >= rewards[0] + RISE:
        key, name = "short", "Answers shrink while the reward rises"
        text = f"Tokens per rollout fell from {ends[0]:.0f} to {ends[1]:.0f}, and the reward rose to {rewards[1]:.2f}. An empty answer may pass the grader."
        link, tokens = "Read the short ones", f"0-{math.ceil(COLLAPSE * ends[0])}"
    else:
        return None
    return Alarm(key, WARN, name, text, steps[-1].number, link, _tried(steps, tokens=tokens))


def ungraded_alarm(steps: Steps) -> Alarm | None:
    """A broken tool or judge takes rollouts out of the training."""
    shares = [step.ungraded_share for step in steps[-WINDOW:] if step.ungraded_share is not None]
    if not shares or fmean(shares) <= MOST_UNGRADED:
        return None
    return Alarm(
        "ungraded", WARN, "Rollouts stay ungraded",
        f"{percent(fmean(shares))} of the latest rollouts have no reward; more than {percent(MOST_UNGRADED)} spoils the comparison "
        "inside groups.",
        steps[-1].number, "Read the ungraded ones", _tried(steps, graded="0"),
    )  # fmt: skip


def signal_alarm(steps: Steps) -> Alarm | None:
    shares = [step.flat_share for step in steps[-WINDOW:] if step.flat_share is not None]
    if not shares or fmean(shares) <= MOST_FLAT:
        return None
    low = sum(step.groups_low for step in steps[-WINDOW:])
    high = sum(step.groups_high for step in steps[-WINDOW:])
    why = "most of them are solved already" if high > low else "most of them never succeed"
    return Alarm(
        "signal", WARN, "Most groups are all alike",
        f"{percent(fmean(shares))} of the latest groups have equal rewards, and {why}: these rollouts teach nothing.",
        steps[-1].number, "Read them", _tried(steps, alike="1"),
    )  # fmt: skip


def gaming_alarm(steps: Steps) -> Alarm | None:
    """One part of the reward climbs while the others stay: the usual sign of gaming."""
    names = {name for step in steps for name, value in step.sub_rewards.items() if value is not None}
    ends = {}
    for name in names:
        found = _ends([step.sub_rewards[name] for step in steps if step.sub_rewards.get(name) is not None])
        if found:
            ends[name] = found
    if len(ends) < 2:
        return None
    change = {name: last - first for name, (first, last) in ends.items()}
    leader = max(change, key=lambda name: (change[name], name))
    others = [name for name in sorted(change) if name != leader]
    full = [name for name in others if ends[name][0] >= 0.98 - STAY]
    if change[leader] < RISE or len(full) == len(others) or any(change[name] > STAY for name in others):
        return None
    first, last = ends[leader]
    stayed = ", ".join(f"{name} at {ends[name][1]:.2f}" for name in others if name not in full)
    return Alarm(
        "gaming", WARN, "The reward may be gamed",
        f"{leader} rose from {first:.2f} to {last:.2f} while the other parts did not rise ({stayed}).",
        steps[-1].number, f"Read where {leader} is high", _tried(steps, sub_reward=f"{leader}:{_down(last)}-"),
    )  # fmt: skip


def dominance_alarm(steps: Steps) -> Alarm | None:
    """The reward has come to follow one part alone, so the others no longer teach anything."""
    names = {name for step in steps for name in step.decides}
    shares = {name: _ends([step.decides[name] for step in steps if name in step.decides]) for name in names}
    ends = {name: found for name, found in shares.items() if found}
    if len(ends) < 2:
        return None
    leader = max(ends, key=lambda name: (ends[name][1], name))
    first, last = ends[leader]
    latest = steps[-1].sub_rewards
    others = [name for name in sorted(ends) if name != leader and (latest.get(name) or 0.0) < 0.98]
    if last < DECIDES or first > last - RISE or not others or any(ends[name][1] > 1 - DECIDES for name in others):
        return None
    high = latest.get(leader)
    more = {"sub_reward": f"{leader}:{_down(high)}-"} if high is not None else {}
    return Alarm(
        "dominance", WARN, "One part decides the reward",
        f"{leader} explains {percent(last)} of how the latest rewards differ, up from {percent(first)}; "
        f"{', '.join(others)} no longer count.",
        steps[-1].number, f"Read where {leader} is high", _tried(steps[-1:], **more),
    )  # fmt: skip


def opinion_alarm(steps: Steps, opinions: Sequence[Opinion]) -> Alarm | None:
    """The reward rises while an evaluation that it is not trained on falls."""
    ends = _ends([step.mean_reward for step in steps if step.mean_reward is not None])
    if not opinions or not ends:
        return None
    last = max(opinions, key=lambda one: (one.step, one.before - one.after))  # the worst of the latest
    seen = f"{last.grader} gives train step {last.step} {last.after:.2f} and the base {last.before:.2f}"
    if last.after >= last.before - STAY or ends[1] <= ends[0] + STAY:
        return Alarm("independent", OK, "Another grader does not see it fall", f"{seen}.", last.step)
    return Alarm(
        "independent", WARN, "Another grader sees it fall",
        f"{seen}, while the train reward rose from {ends[0]:.2f} to {ends[1]:.2f}: the policy may please its own grader only.",
        last.step, "Read what it graded", source=last.source,
    )  # fmt: skip


CHECKS: tuple[Callable[[Steps], Alarm | None], ...] = (
    gaming_alarm,
    gap_alarm,
    tools_alarm,
    length_alarm,
    ungraded_alarm,
    signal_alarm,
    dominance_alarm,
)


def alarms_of(steps: Steps, opinions: Sequence[Opinion] = (), muted: Mapping[str, str] = NONE) -> list[Alarm]:
    """Every judgement that can be made: open warnings, then muted ones, then what is well. `muted`: key and by whom."""
    found = [_dated(alarm, check, steps) for check in CHECKS if steps and (alarm := check(steps))]
    if alarm := opinion_alarm(steps, opinions):
        found.append(alarm)
    found = [replace(alarm, muted_by=muted.get(alarm.key, "") if alarm.level == WARN else "") for alarm in found]
    return sorted(found, key=lambda alarm: (alarm.level == OK, not alarm.is_open))


def _dated(alarm: Alarm, check: Callable[[Steps], Alarm | None], steps: Steps) -> Alarm:
    """A warning with the train step from which on it stands, found by halving: asked a few times, however long the job."""
    if alarm.level == OK:
        return alarm
    quiet, stands = 0, len(steps)
    while stands - quiet > 1:
        middle = (quiet + stands) // 2
        earlier = check(steps[:middle])
        quiet, stands = (quiet, middle) if earlier and earlier.level == WARN else (middle, stands)
    return replace(alarm, step=steps[stands - 1].number)


#: Alarms that tell of a policy which found a way around the grader.
GAMING = {"gaming", "gap", "length", "short", "independent"}


def stopping_alarm(
    steps: Steps, rule: str, opinions: Sequence[Opinion] = (), muted: Mapping[str, str] = NONE
) -> Alarm | None:
    """The first open alarm that the rule `gaming` or `any` pauses for."""
    if rule == "never":
        return None
    found = [alarm for alarm in alarms_of(steps, opinions, muted) if alarm.is_open]
    return next((alarm for alarm in found if rule == "any" or alarm.key in GAMING), None)


def stop_reason(
    steps: Steps, plan: dict, cost_usd: float | None, opinions: Sequence[Opinion] = (), muted: Mapping[str, str] = NONE
) -> str:
    """Why the job's own rules pause it now; empty when they do not. A muted alarm pauses nothing."""
    recent = steps[-WINDOW:]
    flat = [step.flat_share for step in recent if step.flat_share is not None]
    limit = plan.get("stop_zero_variance")
    if limit is not None and len(flat) >= WINDOW and fmean(flat) > limit:
        return f"Paused by the no-signal rule: {percent(fmean(flat))} of the latest groups are all alike, over {percent(limit)}."
    ungraded = [step.ungraded_share for step in recent if step.ungraded_share is not None]
    limit = plan.get("stop_ungraded")
    if limit is not None and len(ungraded) >= 2 and fmean(ungraded) > limit:
        return f"Paused by rule: {percent(fmean(ungraded))} of the latest rollouts are ungraded, over {percent(limit)}."
    if alarm := stopping_alarm(steps, plan.get("stop_alarm") or "never", opinions, muted):
        return f"Paused by rule on an alarm: {alarm.name}. {alarm.text}"
    limit = plan.get("stop_usd")
    if limit is not None and cost_usd is not None and cost_usd >= limit:
        return f"Paused at ${cost_usd:,.2f}: the plan stops at ${limit:,.2f}."
    return ""
