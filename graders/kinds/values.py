"""Reading numbers, sets and tool calls out of texts. Portable."""

import json
import re
from collections import Counter
from typing import Any

#: 1,234.50 · −12 · .5 · 3e-4; plain digits only, so "nan", "1_000" and full-width digits are no numbers.
NUMBER = re.compile(r"[-+−]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_PLAIN = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_AROUND = re.compile(
    r"^[\s$€£¥%*`'\"=]*(?:[A-Z]{3}\b)?[\s$€£¥]*|[\s%$€£¥.*`'\"]*(?:\b[A-Z]{3}\b)?[\s.%*`'\"]*$", re.ASCII
)


def number_in(text: str, where: str = "whole") -> float | None:
    """The number a text is ("whole", with a currency, per cent sign or thousands allowed), or its last or only one."""
    if _PLAIN.fullmatch(text):
        return _to_float(text)
    text = text.replace("\u00a0", " ").strip()
    if where == "whole":
        bare = _AROUND.sub("", text)
        return _to_float(bare) if NUMBER.fullmatch(bare) else None
    found = NUMBER.findall(text)
    if not found or (where == "only" and len(found) > 1):
        return None
    return _to_float(found[-1])


def _to_float(text: str) -> float | None:
    number = float(text.replace(",", "").replace("−", "-"))
    return number if abs(number) != float("inf") else None


_SEPARATORS = re.compile(r"[\n;]+")


def members_in(text: str, *, separator: str = "", key: str = "", cut_commas: bool = True) -> list[str] | None:
    """The members of a list written as JSON, or separated by lines and semicolons, or else by commas, so that
    "VAT Directive, Article 44; C-155/12" is two. None: cannot be read."""
    stripped = text.strip()
    if stripped.startswith(("[", "{")):
        try:
            return _members_of(json.loads(stripped), key)
        except (ValueError, RecursionError):
            return None
    parts = stripped.split(separator) if separator else _SEPARATORS.split(stripped)
    if len(parts) == 1 and not separator and cut_commas:
        parts = stripped.split(",")
    return [part.strip().lstrip("-*•").strip() for part in parts if part.strip().lstrip("-*•").strip()]


def _members_of(value: Any, key: str) -> list[str] | None:
    if isinstance(value, dict) and key and isinstance(value.get(key), list):
        value = value[key]
    if not isinstance(value, list):
        return None
    members = []
    for entry in value:
        if isinstance(entry, dict) and key and key in entry:
            entry = entry[key]
        members.append(entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False, sort_keys=True))
    return members


def f_score(given: Counter, wanted: Counter, measure: str = "f1") -> float:
    """Overlap of two bags; two empty ones agree wholly."""
    shared = (given & wanted).total()
    ours, theirs = given.total(), wanted.total()
    if not ours and not theirs:
        return 1.0
    if measure == "precision":
        return shared / ours if ours else 0.0
    if measure == "recall":
        return shared / theirs if theirs else 1.0
    if measure == "jaccard":
        return shared / (given | wanted).total()
    return 2.0 * shared / (ours + theirs)


def call_name(call: dict[str, Any]) -> str:
    """The bare name; some recordings write `functions.name`."""
    function = call.get("function") if isinstance(call.get("function"), dict) else call
    return str(function.get("name", "")).removeprefix("functions.")


def call_arguments(call: dict[str, Any]) -> str:
    """The arguments in one canonical text, whether they come as an object or as JSON text."""
    function = call.get("function") if isinstance(call.get("function"), dict) else call
    value = function.get("arguments", {})
    is_text = isinstance(value, str)
    try:
        text = value if is_text else json.dumps(value)
        read = json.loads(text, parse_float=_number) if text.strip() else {}
        return json.dumps(read, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return value if is_text else "nested too deeply"


def _number(text: str) -> int | float:
    """1 and 1.0 are one number, however a model writes it."""
    number = float(text)
    return int(number) if number.is_integer() else number
