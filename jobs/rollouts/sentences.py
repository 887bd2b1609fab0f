"""Tool calls as sentences: `read_ruling({"id": "C-155/12"})` → "Read a ruling", "C-155/12". Plain values, no queries."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FIELD = re.compile(r"\{(\w+)\}")
_SHOWN = 200
_KIND_ICONS = {"answer": "message", "text": "message", "calc": "calculator", "calculator": "calculator"}


@dataclass(frozen=True)
class Sentence:
    """What a step did: a verb in words, its object, an icon."""

    title: str
    object: str
    icon: str


@dataclass(frozen=True)
class ToolWords:
    """How an agent version wants its tools to read, by name."""

    sentences: dict[str, str]
    icons: dict[str, str]

    @classmethod
    def of(cls, tools: Sequence[Mapping[str, Any]]) -> "ToolWords":
        named = [tool for tool in tools if isinstance(tool, Mapping) and tool.get("name")]
        return cls(
            {tool["name"]: str(tool.get("sentence") or "") for tool in named},
            {tool["name"]: str(tool.get("icon") or "") for tool in named},
        )


def call_sentence(name: str, arguments: str, words: ToolWords) -> Sentence:
    """One call. Arguments that are no JSON object are shown as they came."""
    values = read_arguments(arguments)
    plain = name.removeprefix("functions.")
    sentence = words.sentences.get(name) or words.sentences.get(plain) or ""
    icon = words.icons.get(name) or words.icons.get(plain) or _guess_icon(plain)
    if sentence and values is not None:
        whole = _FIELD.sub(lambda found: _shown(values.get(found[1])) or "…", sentence)
        title, _, rest = whole.partition(" · ")
        return Sentence(title, _cut(rest), icon)
    title = plain.replace("_", " ").replace("-", " ").strip().capitalize() or "Called a tool without a name"
    if values is None:
        return Sentence(title, _cut(arguments), icon)
    return Sentence(title, _cut(", ".join(filter(None, map(_shown, values.values())))), icon)


def step_sentence(text: str, calls: Sequence[Mapping[str, Any]], words: ToolWords, *, is_last: bool) -> Sentence:
    """A whole step: its one call, its parallel calls together, or what the policy wrote."""
    if len(calls) == 1:
        return call_sentence(str(calls[0].get("name", "")), str(calls[0].get("arguments", "")), words)
    if calls:
        each = [call_sentence(str(c.get("name", "")), str(c.get("arguments", "")), words) for c in calls]
        if len({one.title for one in each}) == 1:
            title = f"{each[0].title}, {len(each)} times at once"
        else:
            title = f"{len(each)} calls at once"
        objects = [one.object if one.title in title else f"{one.title} {one.object}".strip() for one in each]
        return Sentence(title, _cut("; ".join(filter(None, objects))), each[0].icon)
    return Sentence("Answered" if is_last else "Wrote", _cut(" ".join(text.split())), "message")


def read_arguments(arguments: str) -> dict[str, Any] | None:
    """The arguments as an object; None when the model wrote something else."""
    if not arguments.strip():
        return {}
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _guess_icon(name: str) -> str:
    low = name.lower()
    for part, icon in (
        ("search", "search"), ("find", "search"), ("look", "search"), ("list", "search"), ("read", "book"),
        ("open", "book"), ("get", "book"), ("fetch", "globe"), ("browse", "globe"), ("http", "globe"),
        ("calc", "calculator"), ("math", "calculator"), ("python", "code"), ("exec", "code"), ("sql", "table"),
        ("query", "table"), ("write", "edit"), ("update", "edit"),
    ):  # fmt: skip
        if part in low:
            return icon
    return _KIND_ICONS.get(low, "tool")
