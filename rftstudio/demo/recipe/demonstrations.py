"""Scripted demonstrations of the duty desk: what the base model is warmed up on. Standard library only.

The clerk errs by choice, so that the model starts with a foothold and not with the solution: it assumes the usual rate
instead of looking it up, gives up at a referral, forgets to multiply. On two of three kinds of question the wrong way is
the more frequent one: decoding without sampling is then wrong too, and only rewards can mend it. It never looks up the
wrong good: a model this small, taught to hesitate between two goods, also looks up a third and loses its hold on copying.
"""

import json
import random
from dataclasses import dataclass
from typing import Any

from rftstudio.demo import world

USUAL_RATE = "20"


@dataclass(frozen=True)
class Habits:
    """How often the clerk does what. Shares of one decision add up to one with the remainder named last."""

    assume: float  # at once; else looks the good up
    surplus: float  # repeats the look-up for nothing
    follow: float  # after "see glass": looks glass up; else repeats, or assumes
    repeat: float
    multiply: float  # duty: multiplies; else answers with the rate


#: By the agent's prompt, in the order of `world.PROMPTS`: a fuller prompt helps.
HABITS = (
    Habits(0.45, 0.12, 0.22, 0.10, 0.22),
    Habits(0.16, 0.08, 0.40, 0.06, 0.42),
)
#: A clerk without fault. Taught first and for a while: calling and copying are learnt sooner without noise.
FAULTLESS = Habits(0.0, 0.0, 1.0, 0.0, 1.0)


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
        if self.chance(habits.assume):
            return USUAL_RATE
        line = self.lookup(item["good"])
        if self.chance(habits.surplus):
            line = self.lookup(item["good"])
        if line.startswith("see "):
            line = self.referred(line.removeprefix("see "))
        is_multiplied = item["kind"] == "duty" and self.chance(habits.multiply)
        return self.calc(line, str(item["value"])) if is_multiplied else line

    def referred(self, target: str) -> str:
        draw = self.rng.random()
        if draw < self.habits.follow:
            return self.lookup(target)
        if draw < self.habits.follow + self.habits.repeat:
            self.lookup(self.item["good"])
        return USUAL_RATE

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

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
