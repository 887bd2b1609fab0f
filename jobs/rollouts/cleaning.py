"""Texts and numbers as every database can keep them. Portable: standard library only."""

import math
from typing import Any

#: Sums and squares of what is smaller stay finite.
MOST = 1e150


def clean(text: str) -> str:
    """The text as a database can keep it: no NUL, no lone surrogates; each becomes a visible replacement sign."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():  # known of every text without looking
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_json(value: Any) -> Any:
    """A JSON value as a database can keep it; a number that is none becomes None."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(entry) for entry in value]
    return value


def finite(value: Any) -> float | None:
    """A number, or None for what is none: NaN, infinity, text, a bool, and what no sum or square could hold."""
    if value is None or isinstance(value, bool):
        return None
    # The usual type is asked for first: a page asks this of tens of thousands of values.
    if type(value) is not float and not isinstance(value, int | float):
        return None
    return float(value) if -MOST < value < MOST else None


def levels(value: Any) -> int:
    """How many levels of objects and lists there are, counted without recursion."""
    count, layer = 0, [value]
    while layer := [one for one in layer if isinstance(one, dict | list)]:
        count += 1
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, dict) else one)]
    return count
