"""What a local model is asked and what it generates, as plain data. Portable: standard library only, no torch."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field


class Stopped(Exception):
    """Generation was asked to stop before it ended."""


@dataclass
class Ask:
    """One prompt to continue. `draw` gives numbers in [0, 1): one for each token, so a try does not depend on its
    neighbours in the batch. Temperature 0 is greedy. `watch` is called with each token and ends the try when it says so."""

    prompt: list[int]
    max_tokens: int
    draw: Callable[[], float] = field(default_factory=lambda: random.Random().random)  # noqa: S311
    temperature: float = 1.0
    top_p: float = 1.0
    watch: Callable[[int], bool] | None = None


@dataclass
class Generation:
    """What the model wrote, the closing token included. Log-probabilities and entropies (nats) are those of the
    distribution at the asked temperature (at 1 when greedy), before `top_p` cuts it."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    finish_reason: str = "length"
