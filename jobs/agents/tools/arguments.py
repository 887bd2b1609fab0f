"""Reads the arguments of a call as the model wrote them. Portable."""

import json
from decimal import Decimal
from typing import Any


class ArgumentError(Exception):
    """The arguments cannot be used; the text is shown to the model."""


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, Decimal),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _refuse_constant(word: str) -> Any:
    raise ArgumentError(f"Error: {word} is not JSON. Send numbers, texts, true, false or null.")


def parse_arguments(text: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The call's arguments as a dict, decimals exact. Raises ArgumentError in words that the model can act on."""
    if not text.strip():
        text = "{}"
    try:
        # Decimal keeps what the model wrote: 0.1 stays 0.1.
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except json.JSONDecodeError as exc:
        raise ArgumentError(
            f"Error: the arguments are not valid JSON ({exc.msg} at character {exc.pos + 1}). Send one JSON object."
        ) from exc
    except ValueError as exc:  # CPython reads no integer beyond 4,300 digits; a model that repeats itself writes one
        raise ArgumentError("Error: a number in the arguments has too many digits.") from exc
    except RecursionError as exc:
        raise ArgumentError("Error: the arguments are nested too deep. Send one flat JSON object.") from exc
    if not isinstance(value, dict):
        raise ArgumentError("Error: the arguments must be one JSON object.")
    _check_required(value, parameters)
    return value


def _check_required(value: dict[str, Any], parameters: dict[str, Any]) -> None:
    required = parameters.get("required")
    missing = [name for name in required if name not in value] if isinstance(required, list) else []
    if missing:
        names = ", ".join(str(name) for name in missing)
        raise ArgumentError(f"Error: missing argument: {names}. Required: {', '.join(map(str, required))}.")


def check_types(value: dict[str, Any], parameters: dict[str, Any]) -> None:
    """Raise ArgumentError where an argument has another type than the schema says, or is not one of its choices."""
    for name, rule in (parameters.get("properties") or {}).items():
        if name not in value or not isinstance(rule, dict):
            continue
        given, wanted = value[name], rule.get("type")
        allowed = _TYPES.get(wanted) if isinstance(wanted, str) else None
        if allowed and (not isinstance(given, allowed) or (isinstance(given, bool) and wanted != "boolean")):
            raise ArgumentError(f"Error: {name} must be of type {wanted}.")
        choices = rule.get("enum")
        if isinstance(choices, list) and given not in choices:
            raise ArgumentError(f"Error: {name} must be one of: {', '.join(map(str, choices))}.")
