"""Small groups for the tests of the methods."""

import json
import random

from jobs.attribution.types import CreditRollout, CreditStep


def tool(name: str, arguments: str = "", result: str = "", **extra) -> CreditStep:
    return CreditStep(kind="tool", name=name, arguments=arguments, result=result, **extra)


def answer(text: str, **extra) -> CreditStep:
    return CreditStep(kind="answer", result=text, **extra)


def fork() -> list[CreditRollout]:
    """Two rollouts go left and succeed, one goes right and fails; the first step is shared by all."""
    shared = tool("open", "{}", "two doors")
    left, right = tool("go", '{"to": "left"}', "garden"), tool("go", '{"to": "right"}', "wall")
    return [
        CreditRollout("a", "g", 1.0, [shared, left, answer("out")]),
        CreditRollout("b", "g", 1.0, [shared, left, answer("out")]),
        CreditRollout("c", "g", 0.0, [shared, right, answer("stuck")]),
    ]


def chain_world(n_groups: int, *, size: int = 8, length: int = 6, seed: int = 0, fault: float = 0.12):
    """Every step may go wrong once and for all; the reward is 1 when none did. Names are shared by all groups."""
    draw = random.Random(seed)
    rollouts = []
    for number in range(n_groups):
        for index in range(size):
            steps, good = [], True
            for place in range(length - 1):
                wrong = draw.random() < fault
                good = good and not wrong
                query = f"{number}-{place}-" + (f"wrong{draw.randrange(3)}" if wrong else "right")
                result = "nothing found" if wrong else f"fact {number} {place}"
                name = ("search", "read", "add")[place % 3]
                steps.append(tool(name, json.dumps({"q": query}), result, tokens=draw.randrange(4, 30)))
            steps.append(answer("yes" if good else "no", tokens=5))
            rollouts.append(CreditRollout(f"r{index}", f"g{number:03d}", float(good), steps))
    return rollouts
