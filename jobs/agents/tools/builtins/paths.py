"""Small helpers the built-in tools share."""

import json
import unicodedata
from decimal import Decimal
from typing import Any


def at_path(value: Any, path: str) -> Any:
    """The value at a dotted path inside an item, or None."""
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def as_text(value: Any) -> str:
    """A value as a tool answers it: text as it is, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)


def folded(value: Any) -> str:
    """For comparing what a model wrote with what a table says: composed, without case or doubled spaces."""
    return " ".join(unicodedata.normalize("NFC", as_text(value)).casefold().split())
