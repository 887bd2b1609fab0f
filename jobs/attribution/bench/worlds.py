"""Small worlds whose values are known exactly, so that the true advantage Q − V of every step is known too.

A world is an item with states, a policy with known probabilities and a reward at the end. Values follow by dynamic
programming over its states; no method sees them. Portable: standard library only.
"""

import math
import random
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Protocol

from jobs.attribution.types import CreditRollout, CreditStep

State = Hashable


@dataclass(frozen=True)
class Outcome:
    """What may come back, and where the world stands then."""

    chance: float
    state: State
    result: str = ""
    is_error: bool = False


@dataclass(frozen=True)
class Option:
    """One step the policy may take. `variants` are other ways to write the same call; they change nothing else."""

    chance: float
    outcomes: tuple[Outcome, ...]
    name: str = ""  # empty for an answer
    arguments: tuple[str, ...] = ("",)
    tokens: tuple[int, int] = (5, 40)


class World(Protocol):
    """One item."""

    start: State

    def options(self, state: State) -> list[Option]:
        """What the policy may do here; empty at the end."""
        ...

    def reward(self, state: State) -> float:
        """The expected reward at an end."""
        ...

    def paid(self, state: State, random_: random.Random) -> float:
        """The reward that a grader gives at an end; differs from `reward` only for noisy graders."""
        ...


@dataclass
class Truth:
    """A rollout with the true advantage of each step."""

    rollout: CreditRollout
    advantage: list[float] = field(default_factory=list)
    luck: list[float] = field(default_factory=list)  # what the world's own dice added at each step

    @property
    def decisive(self) -> int | None:
        """The step whose advantage is largest in size; None when none stands out."""
        sizes = sorted((abs(value) for value in self.advantage), reverse=True)
        if not sizes or sizes[0] < 0.1 or (len(sizes) > 1 and sizes[0] - sizes[1] < 0.02):
            return None
        return max(range(len(self.advantage)), key=lambda index: abs(self.advantage[index]))


class Values:
    """V of every state of one item, worked out once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._known: dict[State, float] = {}

    def of(self, state: State) -> float:
        if state not in self._known:
            options = self.world.options(state)
            if not options:
                self._known[state] = self.world.reward(state)
            else:
                self._known[state] = math.fsum(option.chance * self.after(option) for option in options)
        return self._known[state]

    def after(self, option: Option) -> float:
        """Q of an option."""
        return math.fsum(outcome.chance * self.of(outcome.state) for outcome in option.outcomes)


def walk(world: World, values: Values, rollout: str, group: str, draw: random.Random) -> Truth:
    """One rollout of the policy, with the truth beside it."""
    state, truth = world.start, Truth(CreditRollout(rollout, group, 0.0))
    while options := world.options(state):
        option = _drawn(options, [o.chance for o in options], draw)
        outcome = _drawn(option.outcomes, [o.chance for o in option.outcomes], draw)
        truth.advantage.append(values.after(option) - values.of(state))
        truth.luck.append(values.of(outcome.state) - values.after(option))
        truth.rollout.steps.append(
            CreditStep(
                kind="tool" if option.name else "answer",
                name=option.name,
                arguments=draw.choice(option.arguments) if option.name else "",
                result=outcome.result if option.name else draw.choice(option.arguments),
                tokens=draw.randint(*option.tokens),
                is_error=outcome.is_error,
            )
        )
        state = outcome.state
    truth.rollout.reward = world.paid(state, draw)
    return truth


def _drawn(things, weights: list[float], draw: random.Random):
    return draw.choices(things, weights)[0]


def groups(family, *, n_groups: int, size: int, seed: int) -> list[Truth]:
    """`size` rollouts of each of `n_groups` items of a family, a function from a random source to a world."""
    draw = random.Random(f"{family.__name__}:{seed}")  # noqa: S311 a bench, not a secret
    truths = []
    for number in range(n_groups):
        world = family(draw)
        values = Values(world)
        truths += [walk(world, values, f"{number}-{index}", f"{number}", draw) for index in range(size)]
    return truths


def sure(state: State, result: str = "", *, is_error: bool = False) -> tuple[Outcome, ...]:
    """An outcome without dice."""
    return (Outcome(1.0, state, result, is_error),)


class Plain:
    """What most worlds share: a grader without noise."""

    start: State = ()

    def paid(self, state: State, random_: random.Random) -> float:
        return self.reward(state)

    def reward(self, state: State) -> float:
        raise NotImplementedError
