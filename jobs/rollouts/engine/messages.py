"""Messages of a rollout, in Chat Completions form. Portable: standard library only."""

import json
import re
from typing import Any

from jobs.rollouts.engine.types import PolicyReply, ToolCallRecord

_FIELD = re.compile(r"\{\{\s*item((?:\.[^\s{}.\[\]]+|\[\d+\])+)\s*\}\}")
_PART = re.compile(r"\.([^\s{}.\[\]]+)|\[(\d+)\]")


class PromptError(Exception):
    """The system prompt names a field that this item has not."""


def opening_messages(item: dict[str, Any], system_prompt: str = "") -> list[dict[str, Any]]:
    """What the policy sees first: the agent's prompt as developer message, then the item's own messages."""
    opening = [{"role": "developer", "content": fill_prompt(system_prompt, item)}] if system_prompt.strip() else []
    return opening + [_plain(message) for message in item.get("messages") or []]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A row's message without the empty keys that some exports add (`name: null`)."""
    return {key: value for key, value in message.items() if value is not None or key == "content"}


def fill_prompt(prompt: str, item: dict[str, Any]) -> str:
    """The prompt with `{{ item.field }}` replaced; texts as they are, anything else as JSON."""
    return _FIELD.sub(lambda found: _text(_lookup(item, found[1])), prompt)


def prompt_fields(prompt: str) -> list[str]:
    """Paths the prompt reads, in order of appearance, such as `item.country`."""
    return list(dict.fromkeys(f"item{path}" for path in _FIELD.findall(prompt)))


def _lookup(item: Any, path: str) -> Any:
    value = item
    for key, place in _PART.findall(path):
        try:
            value = value[key] if key else value[int(place)]
        except (KeyError, IndexError, TypeError) as exc:
            raise PromptError(f"The prompt reads item{path}, which this item does not have.") from exc
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def assistant_message(reply: PolicyReply, calls: list[ToolCallRecord]) -> dict[str, Any]:
    """The policy's turn as it stands in the conversation, with the call ids that the results will carry."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    if reply.opaque:
        message["opaque"] = reply.opaque
    return message


def tool_message(call: ToolCallRecord) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": call.result}
