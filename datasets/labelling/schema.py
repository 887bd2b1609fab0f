"""The form of a label task: kinds of fields, their check, and when two answers agree. Portable.

A field is `{"name", "label", "kind", "required", "options": [{"value", "label", "key"}], "low", "high", "help"}`.
"""

import re
from dataclasses import dataclass
from typing import Any

KINDS = {
    "choice": "One of several choices",
    "tags": "Any number of tags",
    "score": "A number on a scale",
    "text": "A short text",
    "reference": "The right answer",
    "note": "A free note",
    "steps": "A mark on each step of a rollout",
    "span": "Passages of the text",
}
STEP_MARKS = {1: "helps", 0: "neither", -1: "harms"}
_NAME = re.compile(r"^[a-z][a-z0-9_]{0,39}$")
_RESERVED_KEYS = set("jksfg123/?")  # the keys of the queue's page, and g, which goes to places
COMPARED = ("choice", "tags", "score", "text", "reference", "steps")


@dataclass(frozen=True)
class SchemaFault:
    """What is wrong with a form: which field, and how to put it right."""

    where: str
    message: str
    fix: str = ""


def schema_faults(fields: Any) -> list[SchemaFault]:
    """Everything wrong with a form; an empty list when it may be used."""
    if not isinstance(fields, list) or not fields:
        return [SchemaFault("fields", "The form has no field.", "Add at least one.")]
    faults, names = [], set()
    for number, field in enumerate(fields):
        where = f"fields.{number}"
        if not isinstance(field, dict):
            faults.append(SchemaFault(where, "A field is no object."))
            continue
        faults += _field_faults(field, where, names)
        names.add(field.get("name"))
    if sum(isinstance(field, dict) and field.get("kind") == "steps" for field in fields) > 1:
        faults.append(SchemaFault("fields", "Two fields ask for marks on steps.", "Ask for them once."))
    return faults


def _field_faults(field: dict[str, Any], where: str, names: set[Any]) -> list[SchemaFault]:
    faults, name = [], field.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        faults.append(SchemaFault(where, f"{name!r} is no field name.", "Use small letters, digits and _."))
    elif name in names:
        faults.append(SchemaFault(where, f"Two fields are named {name}.", "Give each a name of its own."))
    if field.get("kind") not in KINDS:
        faults.append(SchemaFault(where, f"{field.get('kind')!r} is no kind of field.", f"Use {', '.join(KINDS)}."))
    if not str(field.get("label", "")).strip():
        faults.append(SchemaFault(where, "A field has no question.", "Write what people are asked."))
    if field.get("kind") in ("choice", "tags") and len(_values(field)) < (2 if field["kind"] == "choice" else 0):
        faults.append(SchemaFault(where, f"{name} needs at least two choices.", "Write one choice a line."))
    if len(set(_values(field))) != len(_values(field)):
        faults.append(SchemaFault(where, f"{name} has the same choice twice.", "Leave one out."))
    if field.get("kind") == "score" and not _low(field) < _high(field):
        faults.append(SchemaFault(where, f"The scale of {name} has no length.", "Let it end above its start."))
    return faults


def _values(field: dict[str, Any]) -> list[str]:
    return [option["value"] for option in field.get("options", []) if isinstance(option, dict) and "value" in option]


def _low(field: dict[str, Any]) -> float:
    return field.get("low", 0)


def _high(field: dict[str, Any]) -> float:
    return field.get("high", 5)


def options_of(lines: str) -> list[dict[str, str]]:
    """One choice a line → options, each with a key of the keyboard when a letter is free."""
    options, used = [], set(_RESERVED_KEYS)
    for line in filter(None, (line.strip() for line in lines.splitlines())):
        key = next((char for char in line.lower() if char.isascii() and char.isalnum() and char not in used), "")
        used.add(key)
        options.append({"value": line, "label": line, "key": key})
    return options


def clean_values(fields: list[dict[str, Any]], values: dict[str, Any], *, is_final: bool) -> dict[str, Any]:
    """The values that fit the form. ValueError names the field; a draft may leave required ones out."""
    cleaned: dict[str, Any] = {}
    for field in fields:
        value = _clean(field, values.get(field["name"]))
        if value is not None:
            cleaned[field["name"]] = value
        elif is_final and field.get("required", True) and field["kind"] != "note":
            raise ValueError(f"{field['label']}: choose or write something.")
    return cleaned


def _clean(field: dict[str, Any], value: Any) -> Any:
    if value is None or value == "" or value == [] or value == {}:
        return None
    kind = field["kind"]
    if kind == "choice":
        if value not in _values(field):
            raise ValueError(f"{field['label']}: {str(value)[:60]!r} is no choice.")
        return value
    if kind == "tags":
        tags = [str(tag) for tag in (value if isinstance(value, list) else [value])]
        if not _values(field):
            tags = [tag.strip()[:200] for tag in tags]
        tags = list(dict.fromkeys(filter(None, tags)))
        unknown = [tag for tag in tags if _values(field) and tag not in _values(field)]
        if unknown:
            raise ValueError(f"{field['label']}: {unknown[0][:60]!r} is no choice.")
        return tags or None
    if kind == "score":
        return _score(field, value)
    if kind == "steps":
        return _steps(field, value)
    if kind == "span":
        return [str(piece)[:2000] for piece in value][:200] if isinstance(value, list) else [str(value)[:2000]]
    return str(value).replace("\x00", "\u2400").strip()[:20_000] or None


def _score(field: dict[str, Any], value: Any) -> float | int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{field['label']}: {str(value)[:40]!r} is no number.") from None
    if not _low(field) <= number <= _high(field):
        raise ValueError(f"{field['label']}: the scale goes from {_low(field)} to {_high(field)}.")
    return int(number) if number == int(number) else number


def _steps(field: dict[str, Any], value: Any) -> dict[str, int]:
    marks = {}
    for step, mark in value.items() if isinstance(value, dict) else ():
        if not str(step).isdecimal() or mark not in (-1, 0, 1, "-1", "0", "1"):
            raise ValueError(f"{field['label']}: step {step} is marked 1, 0 or -1.")
        marks[str(int(step))] = int(mark)
    return marks


def comparable(field: dict[str, Any], value: Any) -> Any:
    """The value as it is compared and counted: tags without order, texts without case or spaces around."""
    if value is None:
        return None
    if field["kind"] == "tags":
        return frozenset(value)
    if field["kind"] == "steps":
        return tuple(sorted(value.items()))
    if field["kind"] in ("text", "reference"):
        return " ".join(str(value).split()).casefold()
    return value


def disagreements(fields: list[dict[str, Any]], answers: list[dict[str, Any]]) -> list[str]:
    """The names of the fields on which people differ. Notes and passages are never held against anyone."""
    return [
        field["name"]
        for field in fields
        if field["kind"] in COMPARED and len({comparable(field, answer.get(field["name"])) for answer in answers}) > 1
    ]


def majority(fields: list[dict[str, Any]], answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Per field what more than half of those who answered say; a score is their mean; a field without is left out."""
    result: dict[str, Any] = {}
    for field in fields:
        given = [answer[field["name"]] for answer in answers if field["name"] in answer]
        if not given or field["kind"] in ("note", "span"):
            continue
        if field["kind"] == "score":
            mean = sum(given) / len(given)
            result[field["name"]] = int(mean) if mean == int(mean) else round(mean, 4)
            continue
        counted = [comparable(field, value) for value in given]
        best = max(counted, key=counted.count)
        if counted.count(best) * 2 > len(given):
            result[field["name"]] = given[counted.index(best)]
    return result
