"""What every method shares: groups, leave-one-out baselines, equality of steps, and the law of sums.

The law: for a complete method the credits of a rollout sum to reward − b, where b is the mean of the *other*
graded rewards of its group. `closed` makes it hold to the last bits.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jobs.attribution.types import Credit, CreditRollout, CreditStep

#: Two-sided 90 % under a normal error.
Z90 = 1.6448536269514722

#: Fewer graded rollouts than this have no baseline, so there is nothing to share.
MIN_GRADED = 2


@dataclass(frozen=True)
class Method:
    """One way to share a reward. `compute` takes rollouts of any number of groups and skips what it cannot credit."""

    key: str
    name: str  # as the page calls it
    sentence: str  # what it does, in one sentence for a newcomer
    needs: str
    paper: str  # where the formula was published
    compute: Callable[[list[CreditRollout]], list[Credit]]
    is_complete: bool = True
    assumes: str = ""
    fails: str = ""  # when


@dataclass
class Group:
    """The graded rollouts of one item in a fixed order, whatever order they arrived in."""

    key: str
    rollouts: list[CreditRollout]

    def __post_init__(self) -> None:
        self.total = math.fsum(self.rewards)

    @property
    def rewards(self) -> list[float]:
        return [float(rollout.reward) for rollout in self.rollouts if rollout.reward is not None]

    def baseline(self, place: int) -> float:
        """Mean reward of the others."""
        others = [reward for index, reward in enumerate(self.rewards) if index != place]
        return math.fsum(others) / len(others)

    @property
    def has_difference(self) -> bool:
        rewards = self.rewards
        return max(rewards) - min(rewards) > 1e-12


def groups_of(rollouts: Iterable[CreditRollout]) -> list[Group]:
    """Groups with at least two graded rollouts that have steps, sorted, so that input order never matters."""
    found: dict[str, list[CreditRollout]] = {}
    for rollout in rollouts:
        if rollout.reward is not None and math.isfinite(rollout.reward) and rollout.steps:
            found.setdefault(rollout.group, []).append(rollout)
    return [
        Group(key, sorted(members, key=lambda r: (r.rollout, r.reward, len(r.steps))))
        for key, members in sorted(found.items())
        if len(members) >= MIN_GRADED
    ]


def in_order(credits: Iterable[Credit], rollouts: Sequence[CreditRollout]) -> list[Credit]:
    """The credits in the order in which their rollouts came."""
    place = {rollout.rollout: index for index, rollout in enumerate(rollouts)}
    return sorted(credits, key=lambda credit: place[credit.rollout])


def closed(credits: Sequence[float], total: float) -> list[float]:
    """The same credits, the rounding error of their sum moved into the largest one."""
    shares = [float(credit) for credit in credits]
    for _ in range(3):
        gap = total - math.fsum(shares)
        if gap == 0.0:
            break
        largest = max(range(len(shares)), key=lambda index: abs(shares[index]))
        shares[largest] += gap
    return shares


def by_tokens(steps: Sequence[CreditStep]) -> list[float]:
    """Each step's part of the policy's tokens."""
    tokens = [max(1, step.tokens) for step in steps]
    whole = sum(tokens)
    return [count / whole for count in tokens]


@lru_cache(maxsize=65536)
def canonical(arguments: str) -> str:
    """Arguments compared by value: JSON with sorted keys, other text with its blanks folded."""
    text = arguments.strip()
    if text[:1] in "{[":
        try:
            value: Any = json.loads(text)
            return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return " ".join(text.split())


def action_key(step: CreditStep) -> str:
    """What the policy did: two steps with the same key are the same step on the page."""
    text = canonical(step.arguments) if step.kind != "answer" else " ".join((step.arguments + step.result).split())
    return _digest(step.kind, step.name, text)


def outcome_key(step: CreditStep) -> str:
    """What the policy did and what came back."""
    return _digest(action_key(step), "" if step.kind == "answer" else step.result.strip())


def result_key(step: CreditStep) -> str:
    """Only what came back; for an answer, the answer."""
    return _digest(step.kind, (step.arguments + step.result if step.kind == "answer" else step.result).strip())


class RunningSet:
    """The key of a growing set: independent of order, unchanged by repeats, one sum per addition."""

    def __init__(self) -> None:
        self._members: set[str] = set()
        self._sum = 0

    def add(self, member: str) -> None:
        if member not in self._members:
            self._members.add(member)
            self._sum = (self._sum + int(member, 16)) % (1 << 96)

    @property
    def key(self) -> str:
        return f"{len(self._members)}:{self._sum:x}" if self._members else "start"


def _digest(*parts: str) -> str:
    whole = "\x1f".join(parts)
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
