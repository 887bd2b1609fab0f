"""Crediting the steps of one large train step."""

import importlib
import random
import time

from bench.registry import Figures, Unavailable, measure

ROLLOUTS, GROUP, STEPS = 1024, 8, 8
TARGET_SECONDS = 5.0
TOOLS = ("lookup", "calc", "search")


@measure
def attribution_train_step() -> Figures:
    """Seconds to credit a train step of 1,024 rollouts by each method on one core; target 5 for all together."""
    try:
        registry = importlib.import_module("jobs.attribution.methods.registry")
        types = importlib.import_module("jobs.attribution.types")
    except ImportError as exc:
        raise Unavailable(f"attribution is not in this installation: {exc}") from exc
    groups = _train_step(types, random.Random(7))  # noqa: S311
    seconds = {}
    for name in registry.METHODS:
        started = time.perf_counter()
        registry.compute(name, groups)
        seconds[name] = round(time.perf_counter() - started, 3)
    return {"seconds": seconds, "seconds_together": round(sum(seconds.values()), 3), "target_seconds": TARGET_SECONDS}


def _train_step(types, chance: random.Random) -> list:
    """Rollouts that share beginnings within a group, as those of one item do."""
    return [
        types.CreditRollout(
            rollout=f"r{number}",
            group=f"g{number // GROUP}",
            reward=round(chance.random(), 3),
            steps=[*(_call(types, chance) for _ in range(STEPS - 1)), types.CreditStep(kind="answer", tokens=20)],
        )
        for number in range(ROLLOUTS)
    ]


def _call(types, chance: random.Random):
    argument = chance.randrange(3)
    return types.CreditStep(
        kind="tool",
        name=chance.choice(TOOLS),
        arguments=f'{{"good": "g{argument}"}}',
        result=f'{{"rate": {argument}}}',
        tokens=12,
    )
