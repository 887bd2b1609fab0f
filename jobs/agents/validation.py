"""What keeps a tool or an agent from working, and advice on how they read to a model. Portable."""

import re
from collections.abc import Iterable
from typing import Any

from graders.types import Problem
from jobs.agents.tools.builtins.catalog import BUILTINS
from jobs.agents.tools.spec import NAME, TRANSPORTS, ToolSpec, is_placeholder

MAX_DESCRIPTION = 1024
_JSON_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
_VAGUE = {"do", "run", "tool", "call", "execute", "process", "handle", "helper", "function", "action", "data", "get"}


def tool_problems(spec: ToolSpec) -> list[Problem]:
    """Errors that refuse a tool, each with its place and its mending."""
    problems = []
    if not NAME.match(spec.name):
        problems.append(
            Problem(
                "name", "name", "The name must be letters, digits, _ and -, at most 64.", "Write it as look_up_rate."
            )
        )
    if spec.transport not in TRANSPORTS:
        problems.append(Problem("transport", "transport", f"There is no transport {spec.transport!r}."))
    problems += schema_problems(spec.parameters)
    if spec.transport == "builtin":
        problems += _builtin_problems(spec.config)
    elif spec.transport == "http":
        url = str(spec.config.get("server_url", ""))
        if is_placeholder(url):
            problems.append(
                Problem(
                    "server_url",
                    "placeholder",
                    f"{spec.name}: the address is missing or still a placeholder.",
                    "Write the tool server's own address.",
                )
            )
    elif spec.transport == "mcp" and not (spec.config.get("url") or spec.config.get("command")):
        problems.append(
            Problem("config", "mcp", f"{spec.name}: the MCP server has no address.", "Give its url, or a command.")
        )
    return problems


def _builtin_problems(config: dict[str, Any]) -> list[Problem]:
    builtin = BUILTINS.get(config.get("builtin", ""))
    if builtin is None:
        return [Problem("config", "builtin", "Choose a built-in tool.", f"One of: {', '.join(BUILTINS)}.")]
    return [Problem("config", "builtin", message) for message in builtin.problems(config)]


def schema_problems(parameters: Any, path: str = "parameters") -> list[Problem]:
    """Whether the arguments' schema is one that models and servers understand."""
    if not parameters:
        return []
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        return [Problem(path, "schema", "The schema must describe an object.", 'Start with {"type": "object", …}.')]
    properties = parameters.get("properties", {})
    if not isinstance(properties, dict):
        return [Problem(f"{path}.properties", "schema", "The properties must be a map of names.")]
    problems = []
    for name, rule in properties.items():
        problems += _property_problems(rule, f"{path}.properties.{name}")
    required = parameters.get("required", [])
    if not isinstance(required, list):
        problems.append(Problem(f"{path}.required", "schema", "Required must be a list of names."))
    else:
        problems += [
            Problem(f"{path}.required", "schema", f"{name!r} is required but is no property.", "Add it or drop it.")
            for name in required
            if name not in properties
        ]
    return problems


def _property_problems(rule: Any, path: str) -> list[Problem]:
    if not isinstance(rule, dict):
        return [Problem(path, "schema", "A property is described by an object.")]
    kind = rule.get("type")
    kinds = kind if isinstance(kind, list) else [kind] if kind is not None else []
    unknown = [name for name in kinds if name not in _JSON_TYPES]
    near = {"int": "integer", "str": "string", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
    return [
        Problem(
            f"{path}.type",
            "schema",
            f"{name!r} is no JSON type.",
            f"Write {near[name]}." if name in near else f"One of: {', '.join(sorted(_JSON_TYPES))}.",
        )
        for name in unknown
    ]


def tool_advice(spec: ToolSpec) -> list[Problem]:
    """Warnings about how the tool reads to a model."""
    found = []
    words = re.split(r"[_-]+", spec.name.lower())
    if len(words) == 1 and words[0] in _VAGUE:
        found.append(("name", "The name does not say what the tool does.", "Name the deed: look_up_rate."))
    if len(spec.name) > 40:
        found.append(("name", f"The name has {len(spec.name)} characters.", "Keep it below 40."))
    if not spec.description.strip():
        found.append(("description", "There is no description.", "Say what it answers, and when to use it."))
    elif len(spec.description) > MAX_DESCRIPTION:
        text = f"The description has {len(spec.description)} characters; every rollout pays for them in every step."
        found.append(("description", text, "Move details to the prompt, or cut them."))
    elif len(spec.description.split()) < 4:
        found.append(("description", "The description is very short.", "Say what it answers, and when to use it."))
    for name, rule in (spec.parameters.get("properties") or {}).items():
        if isinstance(rule, dict) and not rule.get("description") and not rule.get("enum"):
            text = f"The argument {name} has no description."
            found.append((f"parameters.properties.{name}", text, "Say what belongs in it, with an example."))
    return [Problem(path, "advice", message, fix, level="warning") for path, message, fix in found]


def toolset_advice(specs: Iterable[ToolSpec]) -> list[Problem]:
    """Warnings about tools that a model may mistake for one another."""
    specs = list(specs)
    found = []
    for place, first in enumerate(specs):
        for second in specs[place + 1 :]:
            shared = _alike(first, second)
            if shared:
                found.append(
                    Problem(
                        first.name,
                        "overlap",
                        f"{first.name} and {second.name} {shared}.",
                        "Say in each description when to use it and when the other, or merge them.",
                        level="warning",
                    )
                )
    if len(specs) > 20:
        text = f"{len(specs)} tools are many: each one's schema is read in every step."
        found.append(Problem("tools", "many", text, "Keep those the task needs.", level="warning"))
    return found


def _alike(first: ToolSpec, second: ToolSpec) -> str:
    mine, other = _word_set(first.description), _word_set(second.description)
    if mine and other and len(mine & other) / len(mine | other) >= 0.7:
        return "have nearly the same description"
    arguments = set(first.parameters.get("properties") or {})
    names = set(re.split(r"[_-]+", first.name.lower())) & set(re.split(r"[_-]+", second.name.lower())) - {"get", "the"}
    if names and arguments and arguments == set(second.parameters.get("properties") or {}):
        return "have similar names and the same arguments"
    return ""


def _word_set(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}
