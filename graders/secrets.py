"""Header values of endpoint graders: encrypted in stored recipes, never shown again, opened only to call out."""

from typing import Any

from graders.validation import children
from rftstudio.core.sealed import seal, unseal

MARK = "sealed:"
SHOWN = "**********"


def seal_config(config: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The recipe with every header value encrypted. A value shown as asterisks keeps what was stored there."""
    return _mapped(config, before or {}, _sealed)


def open_config(config: dict[str, Any]) -> dict[str, Any]:
    """The recipe with header values in the clear, for the service that calls out."""
    return _mapped(config, {}, lambda value, before: unseal(value[len(MARK) :]) if value.startswith(MARK) else value)


def shown_config(config: dict[str, Any]) -> dict[str, Any]:
    """The recipe for pages and answers: header values are asterisks, as the reference shows them."""
    return _mapped(config, {}, lambda value, before: SHOWN if value.startswith(MARK) else value)


def _sealed(value: str, before: Any) -> str:
    if value == SHOWN and isinstance(before, str):
        return before
    return value if not value or value.startswith(MARK) or set(value) == {"*"} else MARK + seal(value)


def _mapped(config: Any, before: Any, change: Any) -> Any:
    if not isinstance(config, dict):
        return config
    before = before if isinstance(before, dict) else {}
    result = dict(config)
    headers, old = config.get("headers"), before.get("headers")
    if isinstance(headers, dict):
        old = old if isinstance(old, dict) else {}
        result["headers"] = {
            name: change(value, old.get(name)) if isinstance(value, str) else value for name, value in headers.items()
        }
    earlier = dict(children(before))
    for where, child in children(config):
        changed = _mapped(child, earlier.get(where), change)
        if where == "grader":
            result["grader"] = changed
        elif isinstance(config.get("graders"), dict):
            result["graders"] = {**result["graders"], where.removeprefix("graders."): changed}
        else:
            index = int(where.removeprefix("graders[").removesuffix("]"))
            result["graders"] = [*result["graders"][:index], changed, *result["graders"][index + 1 :]]
    return result
