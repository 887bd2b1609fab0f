"""What changed between two agent versions, in words and lines. Portable but for the rows it is handed."""

import difflib
import json
from dataclasses import dataclass
from typing import Any

from jobs.agents.tools.http import shown_url


@dataclass(frozen=True)
class Line:
    """A line of a text diff; `kind` is same, added, removed or gap."""

    kind: str
    text: str


@dataclass(frozen=True)
class Change:
    """One thing that differs: what, before, after. `lines` where the difference is a text."""

    what: str
    before: str = ""
    after: str = ""
    lines: tuple[Line, ...] = ()


def text_lines(before: str, after: str, *, around: int = 3) -> tuple[Line, ...]:
    """A unified diff as lines; stretches without change become one gap."""
    found: list[Line] = []
    kinds = {"+": "added", "-": "removed", " ": "same"}
    unified = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=around)
    for number, line in enumerate(unified):
        if number < 2:
            continue
        if line.startswith("@@"):
            if found:
                found.append(Line("gap", "…"))
            continue
        found.append(Line(kinds.get(line[:1], "same"), line[1:]))
    return tuple(found)


def version_changes(before: Any, after: Any) -> list[Change]:
    """Everything that differs between two AgentVersions: prompt, model, sampling, limits, answer format, tools."""
    changes = []
    if before.system_prompt != after.system_prompt:
        changes.append(Change("Prompt", lines=text_lines(before.system_prompt, after.system_prompt)))
    if before.model_id != after.model_id:
        changes.append(Change("Model", str(before.model), str(after.model)))
    changes += _map_changes("Sampling", before.sampling, after.sampling)
    changes += _map_changes("Limit", before.limits, after.limits)
    if before.response_format != after.response_format:
        changes.append(Change("Answer format", _shown(before.response_format), _shown(after.response_format)))
    return changes + tool_changes(before.tools, after.tools)


def _map_changes(what: str, before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return [Change(f"{what}: {_words(key)}", _shown(before.get(key)), _shown(after.get(key))) for key in keys]


def tool_changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[Change]:
    old, new = {tool["name"]: tool for tool in before}, {tool["name"]: tool for tool in after}
    changes = [Change("Tool removed", name) for name in old if name not in new]
    changes += [Change("Tool added", "", name) for name in new if name not in old]
    kept = [name for name in new if name in old]
    if kept != [name for name in old if name in new]:
        changes.append(Change("Order of tools", ", ".join(old), ", ".join(new)))
    for name in kept:
        for key in ("description", "parameters", "transport", "config"):
            mine, theirs = old[name].get(key), new[name].get(key)
            if mine != theirs:
                what = f"Tool {name}: {_words(key)}"
                is_text = key == "description"
                lines = text_lines(mine or "", theirs or "") if is_text else text_lines(_pretty(mine), _pretty(theirs))
                changes.append(Change(what, lines=lines))
    return changes


def _words(key: str) -> str:
    return key.replace("_", " ")


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pretty(value: Any) -> str:
    """JSON by lines, without what an address hides."""
    if isinstance(value, dict) and "server_url" in value:
        value = {**value, "server_url": shown_url(str(value["server_url"]))}
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
