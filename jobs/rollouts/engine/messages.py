"""Messages of a rollout, in Chat Completions form. Portable."""

from collections.abc import Sequence
from typing import Any

from jobs.agents.prompts import fill_prompt
from jobs.rollouts.engine.types import PolicyReply, StepRecord, ToolCallRecord


def opening_messages(item: dict[str, Any], system_prompt: str = "") -> list[dict[str, Any]]:
    """What the policy sees first: the agent's prompt as developer message, then the item's own messages."""
    opening = [{"role": "developer", "content": fill_prompt(system_prompt, item)}] if system_prompt.strip() else []
    return opening + [_plain(message) for message in item.get("messages") or []]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A row's message without the empty keys that some exports add (`name: null`)."""
    return {key: value for key, value in message.items() if value is not None or key == "content"}


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


def told_messages(steps: Sequence[StepRecord]) -> list[dict[str, Any]]:
    """Finished steps as they stand in the conversation: each turn and the results it caused."""
    messages = []
    for step in steps:
        messages.append(assistant_message(PolicyReply(text=step.text), step.tool_calls))
        messages += [tool_message(call) for call in step.tool_calls]
    return messages


def tool_message(call: ToolCallRecord) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": call.result}
