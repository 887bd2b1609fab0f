"""Built-in tool: look a key up in a table, which the agent or each item brings along.

Config: `table` (an object, or a list of rows) or `item_field` (where the item keeps it); `key` names the argument.
For a list of rows `key_field` names the column to match (default: `key`) and `value_field` the column to answer
with (default: the whole row). `missing` is the answer when nothing matches; `{key}` stands for what was asked.
"""

from collections.abc import Callable
from typing import Any

from jobs.agents.tools.arguments import ArgumentError
from jobs.agents.tools.builtins.paths import as_text, at_path, folded
from jobs.agents.tools.spec import ToolSpec

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"key": {"type": "string", "description": "What to look up."}},
    "required": ["key"],
}


def config_problems(config: dict[str, Any]) -> list[str]:
    """What keeps this configuration from working."""
    if "table" in config:
        kind = config["table"]
        return [] if isinstance(kind, dict | list) and kind else ["The table is empty."]
    return [] if config.get("item_field") else ["Give a table, or name the item's field that holds one."]


def ready(spec: ToolSpec, item: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    config = spec.config
    argument = config.get("key") or next(iter(spec.parameters.get("properties") or {"key": {}}), "key")
    columns = (config.get("key_field") or argument, config.get("value_field"))
    if "table" in config:
        index = spec.memo.get("index") or spec.memo.setdefault("index", _index(config["table"], *columns))
    else:
        index = _index(at_path(item, str(config.get("item_field", ""))), *columns)

    def answer(arguments: dict[str, Any]) -> str:
        if argument not in arguments:
            raise ArgumentError(f"Error: missing argument: {argument}.")
        asked = arguments[argument]
        found = index.get(folded(asked))
        if found is None:
            return str(config.get("missing", "no entry for {key}")).replace("{key}", as_text(asked))
        return as_text(found)

    return answer


def _index(rows: Any, key_field: str, value_field: str | None) -> dict[str, Any]:
    if isinstance(rows, dict):
        return {folded(key): value for key, value in reversed(rows.items())}  # the first of equal keys wins
    if not isinstance(rows, list):
        return {}
    keyed = [row for row in rows if isinstance(row, dict) and key_field in row]
    return {folded(row[key_field]): row.get(value_field) if value_field else row for row in reversed(keyed)}
