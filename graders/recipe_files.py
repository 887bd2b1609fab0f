"""Reading a grader from JSON text with errors a person can act on, and the fields of a set of rows. Portable."""

import json
from collections.abc import Iterable
from typing import Any

from graders.types import Problem


def read_recipe(text: str) -> tuple[Any, list[Problem]]:
    """The JSON value, or None with what is wrong and where."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    try:
        return json.loads(text.removeprefix("\ufeff"), parse_constant=refuse), []
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        fix = "Check quotes, commas and brackets there; text over several lines needs \\n inside quotes."
        return None, [Problem("grader", "not_json", f"This is not JSON: {error.msg} at {where}.", fix)]
    except (ValueError, RecursionError) as error:
        return None, [
            Problem("grader", "not_json", f"This is not JSON: {error}.", "Use numbers, texts, lists, objects.")
        ]


def fields_of(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Top-level field names with how many rows have them."""
    present: dict[str, int] = {}
    total = 0
    for row in rows:
        total += 1
        for key in row if isinstance(row, dict) else ():
            present[key] = present.get(key, 0) + 1
    return {key: {"present": count, "of": total} for key, count in present.items()}


def is_same_recipe(first: Any, second: Any) -> bool:
    """Equal, and its parts in the same order: a dict says nothing about that."""
    return first == second and json.dumps(first) == json.dumps(second)
