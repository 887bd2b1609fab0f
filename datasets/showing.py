"""Rows as people read them: a conversation and labelled fields, never raw JSON. Portable."""

from dataclasses import dataclass, field
from typing import Any

from datasets.row_checks import text_of

ROLE_WORDS = {
    "user": "Question", "assistant": "Answer", "system": "Instructions", "developer": "Instructions", "tool": "Tool result",
}  # fmt: skip
ROLE_ICONS = {"user": "person", "assistant": "agent", "system": "document", "developer": "document", "tool": "tool"}
MAX_TEXT = 20_000
MAX_DEPTH = 4


@dataclass(frozen=True)
class MessageShown:
    role: str
    word: str
    icon: str
    text: str
    calls: list[str]
    is_cut: bool = False


@dataclass(frozen=True)
class FieldShown:
    """One labelled row. `kind` is text, tags, fields or empty; `is_number` keeps figures in the figure font."""

    name: str
    label: str
    kind: str
    text: str = ""
    tags: list[str] = field(default_factory=list)
    fields: list["FieldShown"] = field(default_factory=list)
    is_number: bool = False
    is_cut: bool = False


def messages_shown(value: dict[str, Any]) -> list[MessageShown]:
    """The conversation; what is no message is left to the fields."""
    messages = value.get("messages")
    if not isinstance(messages, list):
        return []
    return [_message(message) for message in messages if isinstance(message, dict)]


def _message(message: dict[str, Any]) -> MessageShown:
    role = str(message.get("role", ""))
    text = text_of(message.get("content"))
    calls = [_call(call) for call in message.get("tool_calls") or [] if isinstance(call, dict)]
    word = ROLE_WORDS.get(role, role or "message")
    return MessageShown(role, word, ROLE_ICONS.get(role, "message"), text[:MAX_TEXT], calls, len(text) > MAX_TEXT)


def _call(call: dict[str, Any]) -> str:
    function = call.get("function") if isinstance(call.get("function"), dict) else call
    return f"{label_of(str(function.get('name', 'tool')))} · {function.get('arguments', '')}"


def fields_shown(value: dict[str, Any]) -> list[FieldShown]:
    """Everything beside the conversation, the tools by name."""
    rows = []
    for name, inner in value.items():
        if name == "messages" and isinstance(inner, list):
            continue
        if name == "tools" and isinstance(inner, list):
            rows.append(FieldShown(name, "Tools", "tags", tags=[_tool_name(tool) for tool in inner]))
            continue
        rows.append(_field(name, inner, 0))
    return rows


def _tool_name(tool: Any) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    return str(function.get("name", "?")) if isinstance(function, dict) else "?"


def _field(name: str, inner: Any, depth: int) -> FieldShown:
    label = label_of(name)
    if inner is None or inner == "" or inner == [] or inner == {}:
        return FieldShown(name, label, "empty")
    if isinstance(inner, dict) and depth < MAX_DEPTH:
        return FieldShown(name, label, "fields", fields=[_field(key, each, depth + 1) for key, each in inner.items()])
    if isinstance(inner, list) and depth < MAX_DEPTH:
        if all(not isinstance(each, (dict, list)) and len(str(each)) <= 60 for each in inner):
            return FieldShown(name, label, "tags", tags=[plain(each) for each in inner[:200]])
        rows = [_field(str(number), each, depth + 1) for number, each in enumerate(inner[:50], 1)]
        return FieldShown(name, label, "fields", fields=rows, is_cut=len(inner) > 50)
    text = plain(inner)
    is_number = isinstance(inner, (int, float)) and not isinstance(inner, bool)
    return FieldShown(name, label, "text", text[:MAX_TEXT], is_number=is_number, is_cut=len(text) > MAX_TEXT)


def plain(value: Any) -> str:
    """A value in words: yes and no for booleans, a dash for nothing, every digit of a number."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def label_of(name: str) -> str:
    """`reference_answer` → "Reference answer"."""
    words = " ".join(name.replace("_", " ").replace("-", " ").split())
    return words[:1].upper() + words[1:] if words else name
