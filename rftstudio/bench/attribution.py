"""Speed of attribution: 1,024 rollouts of 8 steps, every stored-group method, one core."""

import json
import random
import time
from typing import Any

from jobs.attribution.methods.registry import STORED_GROUP, compute
from jobs.attribution.types import CreditRollout, CreditStep

ROLLOUTS, STEPS, GROUP = 1024, 8, 8


def train_step(seed: int = 0) -> list[CreditRollout]:
    """A train step's rollouts: repeated and own steps mixed, results of some 300 characters."""
    draw = random.Random(seed)  # noqa: S311
    rollouts = []
    for number in range(ROLLOUTS // GROUP):
        for index in range(GROUP):
            steps = []
            for place in range(STEPS - 1):
                choice = draw.randrange(3)
                steps.append(
                    CreditStep(
                        kind="tool",
                        name=("search", "read", "open", "calc")[draw.randrange(4)],
                        arguments=json.dumps({"query": f"item {number} part {place} choice {choice}"}),
                        result=f"fact {number} {place} {choice} " * 12,
                        tokens=draw.randrange(10, 200),
                        is_error=draw.random() < 0.05,
                        step_reward=draw.random() if place % 3 == 0 else None,
                    )
                )
            steps.append(CreditStep(kind="answer", result=f"answer {draw.randrange(3)}", tokens=30))
            rollouts.append(CreditRollout(f"r{index}", f"g{number}", draw.random(), steps))
    return rollouts


def measures() -> list[dict[str, Any]]:
    """One line a method and one for all: seconds, against the 5 s that the whole may take."""
    rollouts = train_step()
    lines, whole = [], 0.0
    for method in STORED_GROUP:
        start = time.process_time()
        compute(method, rollouts)
        seconds = time.process_time() - start
        whole += seconds
        lines.append({"name": f"attribution {method}, {ROLLOUTS} rollouts of {STEPS} steps", "seconds": seconds})
    lines.append({"name": "attribution, all stored-group methods", "seconds": whole, "target_seconds": 5.0})
    return lines


if __name__ == "__main__":
    print(json.dumps(measures(), indent=2))
