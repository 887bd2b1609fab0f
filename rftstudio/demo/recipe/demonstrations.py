"""Scripted, noisy demonstrations of the duty desk: what the base model is warmed up on. Standard library only.

The clerk errs by choice, so that the model starts with a foothold and not with the solution. On two of three decisions
the most frequent choice is a wrong one: decoding without sampling is then wrong too, and only rewards can mend it.
"""

import json
import random
from dataclasses import dataclass
from typing import Any

from rftstudio.demo import world


@dataclass(frozen=True)
class Habits:
    """How often the clerk does what. Shares of one decision add up to one with the remainder named last."""

    right_good: float  # first look-up; else the other good of the ship, or a guess
    guess: float
    second_look: float  # after the wrong good: notices, and looks the right one up
    surplus: float  # repeats a look-up for nothing
    follow: float  # after "see glass": looks glass up; else the other good, or a guess
    give_up: float
    multiply: float  # duty: multiplies; else the wrong factor, or answers with the rate
    wrong_factor: float


#: By the agent's prompt, in the order of `world.PROMPTS`: a fuller prompt helps.
HABITS = (
    Habits(0.52, 0.18, 0.10, 0.15, 0.22, 0.20, 0.22, 0.08),
    Habits(0.78, 0.04, 0.20, 0.08, 0.38, 0.06, 0.40, 0.04),
)

#: A clerk without fault. Taught first and for a while: copying and calling are learnt sooner without noise.
FAULTLESS = Habits(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0)


class Clerk:
    """Acts on one item and writes the conversation down in Chat Completions form."""

    def __init__(self, item: dict[str, Any], habits: Habits, rng: random.Random) -> None:
        self.item, self.habits, self.rng = item, habits, rng
        self.messages: list[dict[str, Any]] = []

    def demonstrate(self) -> list[dict[str, Any]]:
        self.say(self.work())
        return self.messages

    def work(self) -> str:
        """The whole conversation but for the answer, which it returns."""
        item, habits = self.item, self.habits
        draw = self.rng.random()
        if draw < habits.guess:
            return self.guess()
        is_right = draw < habits.guess + habits.right_good
        line = self.lookup(item["good"] if is_right else item["other_good"])
        if is_right and self.rng.random() < habits.surplus:
            line = self.lookup(item["good"])
        if not is_right and self.rng.random() < habits.second_look:
            line = self.lookup(item["good"])
        if line.startswith("see "):
            line = self.referred(line.removeprefix("see "))
        return self.duty(line) if item["kind"] == "duty" else line

    def referred(self, target: str) -> str:
        draw = self.rng.random()
        if draw < self.habits.follow:
            return self.lookup(target)
        if draw < self.habits.follow + self.habits.give_up:
            return self.guess()
        return self.lookup(self.item["other_good"])

    def duty(self, rate: str) -> str:
        draw, value = self.rng.random(), str(self.item["value"])
        if draw < self.habits.multiply:
            return self.calc(rate, value)
        if draw < self.habits.multiply + self.habits.wrong_factor:
            return self.calc(rate, rate)
        return rate

    def guess(self) -> str:
        return str(self.rng.randint(10, 49))

    def lookup(self, good: str) -> str:
        return self.call("lookup", {"good": good}, self.item["schedule"][good])

    def calc(self, a: str, b: str) -> str:
        return self.call("calc", {"a": int(a), "b": int(b)}, str(int(a) * int(b)))

    def call(self, name: str, arguments: dict[str, Any], result: str) -> str:
        function = {"name": name, "arguments": json.dumps(arguments, separators=(",", ":"))}
        self.messages.append({"role": "assistant", "tool_calls": [{"type": "function", "function": function}]})
        self.messages.append({"role": "tool", "content": result})
        return result

    def say(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})


def demonstrations(
    count: int, seed: int, *, plain_prompt_share: float = 0.15, is_faultless: bool = False
) -> list[list[dict[str, Any]]]:
    """Conversations on fresh items; questions of the shipped data file are left out."""
    rng = random.Random(seed)  # noqa: S311
    taken = {row["messages"][0]["content"] for row in world.items_make()}
    conversations = []
    while len(conversations) < count:
        item = world.item_make(rng, world.KINDS[len(conversations) % len(world.KINDS)])
        if item["messages"][0]["content"] in taken:
            continue
        prompt = 0 if rng.random() < plain_prompt_share else 1
        opening = [{"role": "system", "content": world.PROMPTS[prompt]}, *item["messages"]]
        habits = FAULTLESS if is_faultless else HABITS[prompt]
        conversations.append(opening + Clerk(item, habits, rng).demonstrate())
    return conversations
