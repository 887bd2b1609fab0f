"""A tool's argument schema as form rows, and back. What rows cannot show is kept, never dropped. Portable."""

import copy
from dataclasses import dataclass
from typing import Any

#: JSON schema's types and how a person reads them.
TYPES = {
    "string": "text",
    "number": "number",
    "integer": "whole number",
    "boolean": "yes or no",
    "array": "list",
    "object": "object",
}


@dataclass(frozen=True)
class ArgumentRow:
    """One argument as the form shows it. `choices` is a comma-separated list; empty means anything."""

    name: str = ""
    type: str = "string"
    description: str = ""
    is_required: bool = False
    choices: str = ""


def rows_of(parameters: dict[str, Any]) -> list[ArgumentRow]:
    """The schema's properties in order."""
    required = parameters.get("required") or []
    rows = []
    for name, rule in (parameters.get("properties") or {}).items():
        rule = rule if isinstance(rule, dict) else {}
        kind = rule.get("type") if isinstance(rule.get("type"), str) else "string"
        choices = ", ".join(str(choice) for choice in rule.get("enum") or [])
        rows.append(ArgumentRow(name, kind, str(rule.get("description", "")), name in required, choices))
    return rows


def schema_of(rows: list[ArgumentRow], before: dict[str, Any]) -> dict[str, Any]:
    """The schema that the rows describe. Keys of `before` that rows do not show (nested rules, formats) stay."""
    old = before.get("properties") or {}
    properties = {}
    for row in rows:
        rule = copy.deepcopy(old.get(row.name)) if isinstance(old.get(row.name), dict) else {}
        if not isinstance(rule.get("type"), list):
            rule["type"] = row.type
        for key, value in (("description", row.description), ("enum", _choices(row))):
            if value:
                rule[key] = value
            else:
                rule.pop(key, None)
        properties[row.name] = rule
    schema = {**before, "type": "object", "properties": properties}
    schema["required"] = [row.name for row in rows if row.is_required]
    if not schema["required"]:
        del schema["required"]
    return schema


def _choices(row: ArgumentRow) -> list[Any]:
    words = [word.strip() for word in row.choices.split(",") if word.strip()]
    if row.type in {"number", "integer"}:
        return [_number(word) for word in words]
    return words


def _number(word: str) -> Any:
    for convert in (int, float):
        try:
            return convert(word)
        except ValueError:
            continue
    return word


def example_arguments(parameters: dict[str, Any]) -> dict[str, Any]:
    """Arguments to start a test call from."""
    samples: dict[str, Any] = {"number": 1, "integer": 1, "boolean": True, "array": [], "object": {}}
    required = parameters.get("required") or []
    properties = parameters.get("properties") or {}
    names = [name for name in properties if name in required] or list(properties)[:1]
    return {
        name: (rule.get("enum") or [samples.get(str(rule.get("type")), "")])[0]
        for name in names
        if isinstance(rule := properties[name], dict)
    }
