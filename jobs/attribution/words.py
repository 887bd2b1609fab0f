"""Credit said in words, for someone who never heard of it: which step mattered most, how sure that is, and why."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.attribution.methods import information_gain
from jobs.attribution.models import RolloutCredit
from rftstudio.core.show import show_reward, show_signed


def is_clear(low: float | None, high: float | None) -> bool:
    """Whether an interval excludes zero."""
    return low is not None and high is not None and (low > 0 or high < 0)


def places_of(low: float, high: float) -> int:
    """How many decimals both ends of an interval get: two, unless those would round a clear one onto zero."""
    if not is_clear(low, high):
        return 2
    return next((places for places in (2, 3) if round(min(abs(low), abs(high)), places)), 4)


def interval_words(low: float, high: float) -> str:
    """An interval, both ends with the same decimals: "−0.20 to 0.00", "+0.004 to +0.310"."""
    places = places_of(low, high)
    return f"{show_signed(low, places)} to {show_signed(high, places)}"


def verdict(credit: RolloutCredit, clear: Sequence[bool], method: str) -> tuple[str, int | None]:
    """Which step decided, in words after the step's own, and its number. Honest when no step is clear."""
    if method == "uniform":
        return "This method gives every step its part of the same advantage; it does not say which one decided.", None
    shares = credit.credits
    if method == information_gain.KEY:
        return _gain(credit)
    if not shares or max(abs(share) for share in shares) < 1e-9:
        return "All rewards of the group are equal, so there is no difference to share.", None
    sure = [index for index in range(len(shares)) if clear[index]]
    best = max(sure or range(len(shares)), key=lambda index: abs(shares[index]))
    did = f"added {show_reward(shares[best])} to" if shares[best] > 0 else f"took {show_reward(-shares[best])} off"
    if not sure:
        return (
            f"may have mattered most: it {did} the reward by this estimate. Not sure: no step’s effect is told from zero.",
            best + 1,
        )
    places = places_of(credit.low[best], credit.high[best])
    least, most = sorted((abs(credit.low[best]), abs(credit.high[best])))
    return (
        f"mattered most: it {did} the reward, 90 % sure between {show_reward(least, places)} and {show_reward(most, places)}. "
        f"{_others(len(sure) - 1, len(shares) - len(sure))}",
        best + 1,
    )


def _others(clear: int, unclear: int) -> str:
    """What is known of the other steps."""
    first = (
        f"{clear} other step{'s' if clear > 1 else ''} clearly mattered too"
        if clear
        else "No other step clearly mattered"
    )
    if not unclear or not clear:
        return f"{first}."
    return f"{first}; {unclear} may have made no difference."


def _gain(credit: RolloutCredit) -> tuple[str, int | None]:
    """Gains are read off the policy, so there is nothing to be unsure of; they say what it knew, not what paid."""
    best = max(range(len(credit.credits)), key=lambda index: abs(credit.credits[index]), default=None)
    if best is None or abs(credit.credits[best]) < 0.005:
        return "No step changed the policy’s chance of the reference answer by as much as one percent.", None
    way, detail = "raised" if credit.credits[best] > 0 else "lowered", credit.detail["steps"][best]
    chances = f"from {_chance(detail['before'])} to {_chance(detail['after'])} a token"
    return f"{way} the policy’s chance of the reference answer most, {chances}.", best + 1


def because(method: str, credit: RolloutCredit | None, index: int) -> str:
    """Why a step got this much."""
    steps = credit.detail.get("steps", []) if credit else []
    detail: Mapping[str, Any] = steps[index] if index < len(steps) else {}
    if note := detail.get("note"):
        return f"{str(note).capitalize()}, so the reward is shared evenly and nothing is claimed."
    if "why" in detail:
        words = {1: "helps", 0: "makes no difference", -1: "harms"}[detail["mark"]]
        reason = f": “{detail['why']}”" if detail["why"] else "."
        return f"The judge says that it {words}{reason}"
    if method == "uniform":
        return "Its part of the policy's tokens, times the advantage."
    if method == "returns_to_go":
        return f"{show_reward(detail.get('to_go'))} came after it; the others had {show_reward(detail.get('level'))}."
    if "before" not in detail:
        return ""
    return _moved(method, detail, credit, index)


def _moved(method: str, detail: Mapping[str, Any], credit: RolloutCredit | None, index: int) -> str:
    """A method that has a value before and after the step."""
    if method == information_gain.KEY:
        before, after = _chance(detail["before"]), _chance(detail["after"])
        return f"The policy gave each token of the reference answer a chance of {before} before this step and {after} after it."
    before, after = show_reward(detail["before"]), show_reward(detail["after"])
    if method == "rerun":
        count = credit.support[index] if credit is not None else 0
        return f"Mean reward from before this step {before}, from after it {after}, over {count} continuations."
    if method == "prefix_value":
        return f"Guess before {before}, after {after}{_rest(detail, credit, index)}."
    company = detail.get("company", 0)
    if credit is not None and credit.low[index] is None:
        return "No sibling stood here or took this step, so the group cannot tell."
    shared = f"{company} sibling{'' if company == 1 else 's'} took it too" if company else "No sibling took it"
    return f"{shared}; what the group says about this path moved from {before} to {after}."


def _rest(detail: Mapping[str, Any], credit: RolloutCredit | None, index: int) -> str:
    """What of the credit is not the guess that moved, so that nobody adds up in vain."""
    rest = credit.credits[index] - (detail["after"] - detail["before"]) if credit is not None else 0.0
    if credit is None or abs(rest) < 0.005:
        return ""
    if index == len(credit.credits) - 1:
        return f"; {show_signed(rest)} closes to the reward it got"
    return f"; {show_signed(rest)} is its part of the way from the siblings' mean to the first guess"


def _chance(share: float) -> str:
    """A chance in percent, with two figures that say something however small it is."""
    return f"{share * 100:.0f} %" if share >= 0.1 else f"{share * 100:.2g} %"
