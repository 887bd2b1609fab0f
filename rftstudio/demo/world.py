"""The example world: the duty desk of a customs house. Portable and seeded; standard library only.

Each item is one question with a tariff schedule of its own, so nothing about it can be memorised: the model has to
look the good up. Three kinds of question:

- `rate`: look up the good, say the rate.
- `duty`: look up the good, multiply rate by declared value. A rate in percent of pounds is a duty in pence.
- `referral`: worded like `rate`, but the schedule answers "see glass": follow it, then say the rate.

Run as a script to write the data file anew: `python rftstudio/demo/world.py rftstudio/demo/data/duty_desk.jsonl`.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

KINDS = ("rate", "duty", "referral")
SPLITS = {"train": 400, "validation": 48, "test": 120}
SEED = 20

GOODS = (
    "tea", "coffee", "sugar", "salt", "wine", "beer", "honey", "rice", "silk", "wool", "cotton", "linen",
    "glass", "paper", "steel", "copper", "timber", "leather", "pepper", "tobacco", "soap", "cocoa", "brass", "marble",
)  # fmt: skip
PORTS = ("Hull", "Leith", "Dover", "Bristol", "Cork", "Harwich")

#: The agent's prompts, worst first: the ladder that is climbed before any training.
PROMPTS = (
    "You answer customs questions.",
    "You are the duty desk. Look up the good in the tariff, then answer with one number.",
)
SYSTEM_PROMPT = PROMPTS[-1]

#: Fields of jobs.agents.tools.spec.ToolSpec. Their order is part of the agent: the model was warmed up on this order.
TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "lookup",
        "description": "Read one line of the tariff: the duty rate of a good in percent, or the line to see instead.",
        "parameters": {
            "type": "object",
            "properties": {"good": {"type": "string", "description": "The good, in one word."}},
            "required": ["good"],
            "additionalProperties": False,
        },
        "transport": "builtin",
        "config": {"builtin": "table", "item_field": "schedule", "key": "good"},
        "headers": {},
        "sentence": "Looked up {good} in the tariff",
        "icon": "book",
        "is_replayable": True,
    },
    {
        "name": "calc",
        "description": "Multiply two numbers: a rate in percent by a value in pounds gives the duty in pence.",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "number", "description": "The rate in percent."},
                "b": {"type": "number", "description": "The declared value in pounds."},
            },
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        "transport": "builtin",
        "config": {"builtin": "calculator", "operation": "product"},
        "headers": {},
        "sentence": "Multiplied {a} by {b}",
        "icon": "calculator",
        "is_replayable": True,
    },
)

#: Enough for any sensible route through the three kinds.
LIMITS = {"max_steps": 6, "max_tool_calls": 6, "max_tokens": 160, "max_seconds": 300}


def item_make(rng: random.Random, kind: str) -> dict[str, Any]:
    """One question of the kind, without id and split."""
    good, other, target, *rest = rng.sample(GOODS, 6)
    schedule = {name: str(rng.randint(10, 49)) for name in (good, other, target, *rest)}
    if kind == "referral":
        schedule[good] = f"see {target}"
    value = rng.randint(10, 99)
    port = rng.choice(PORTS)
    first, second = rng.sample((good, other), 2)
    question = f"{port}: the ship carries {first} and {second}. "
    if kind == "duty":
        question += f"The {good} is worth {value} pounds. What is the duty on {good}?"
    else:
        question += f"What is the rate for {good}?"
    item = {
        "messages": [{"role": "user", "content": question}],
        "schedule": dict(sorted(schedule.items())),
        "kind": kind,
        "port": port,
        "good": good,
        "other_good": other,
    }
    if kind == "duty":
        item["value"] = value
    calls = best_calls(item)
    return {**item, "reference_answer": answer_of(item), "reference_calls": calls}


def best_calls(item: dict[str, Any]) -> list[dict[str, Any]]:
    """The shortest sound route: what a careful clerk would do."""
    line = item["schedule"][item["good"]]
    calls = [{"name": "lookup", "arguments": {"good": item["good"]}}]
    if line.startswith("see "):
        calls.append({"name": "lookup", "arguments": {"good": line.removeprefix("see ")}})
    if item["kind"] == "duty":
        calls.append({"name": "calc", "arguments": {"a": int(line), "b": item["value"]}})
    return calls


def answer_of(item: dict[str, Any]) -> str:
    """The right answer, from the schedule alone."""
    line = item["schedule"][item["good"]]
    while line.startswith("see "):
        line = item["schedule"][line.removeprefix("see ")]
    return str(int(line) * item["value"]) if item["kind"] == "duty" else line


def items_make(seed: int = SEED, splits: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """All rows in file order. No question text appears twice, so splits cannot overlap."""
    rng = random.Random(seed)  # noqa: S311
    seen: set[str] = set()
    rows = []
    for split, count in (splits or SPLITS).items():
        for number in range(1, count + 1):
            kind = KINDS[number % len(KINDS)]
            item = item_make(rng, kind)
            while item["messages"][0]["content"] in seen:
                item = item_make(rng, kind)
            seen.add(item["messages"][0]["content"])
            rows.append({"id": f"{split}-{number:03d}", "split": split, **item})
    return rows


def rows_text(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(rows_text(items_make()), encoding="utf-8")
