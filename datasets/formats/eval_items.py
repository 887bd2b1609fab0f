"""Rows of the evals file format, `{"item": {...}}`: the row is what is inside."""

from typing import Any

_WRAPPER_KEYS = {"item", "sample"}


def unwrap(value: dict[str, Any]) -> dict[str, Any]:
    """The inner row of an eval line; any other row as it is. A row with `messages` is never a wrapper."""
    inner = value.get("item")
    return inner if type(inner) is dict and value.keys() <= _WRAPPER_KEYS else value
