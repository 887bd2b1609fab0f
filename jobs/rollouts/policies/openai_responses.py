"""A policy behind the Responses API. Portable; the HTTP client is handed in.

Nothing is stored with the provider (`store: false`): each turn sends the whole conversation, and a reasoning model gets
its own encrypted reasoning back, as in the reference's advice for agents.
"""

import json
from typing import Any

from jobs.agents.tools.http_types import HttpAnswer
from jobs.rollouts.engine.types import PolicyReply
from jobs.rollouts.policies.openai_chat import OpenAIChatPolicy


class OpenAIResponsesPolicy(OpenAIChatPolicy):
    """Answers by `POST {base_url}/responses`. Retries, refusals and limits are those of the chat policy."""

    path = "/responses"

    def _fixed_fields(self, model: str, sampling: dict[str, Any], response_format: dict | None) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": model, "store": False, "include": ["reasoning.encrypted_content"]}
        for key in ("temperature", "top_p", "parallel_tool_calls"):
            if sampling.get(key) is not None:
                fields[key] = sampling[key]
        if sampling.get("reasoning_effort"):
            fields["reasoning"] = {"effort": sampling["reasoning_effort"], "summary": "auto"}
        limit = sampling.get("max_completion_tokens") or sampling.get("max_tokens")
        if limit:
            fields["max_output_tokens"] = limit
        if response_format:
            fields["text"] = {"format": _flat_format(response_format)}
        return fields | (sampling.get("extra_body") or {})

    def _body(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], seed: int | None) -> bytes:
        payload = {**self.fixed, "input": [part for message in messages for part in _input_parts(message)]}
        if tools:
            payload["tools"] = [{"type": "function", "strict": False, **tool["function"]} for tool in tools]
        return json.dumps(payload, ensure_ascii=True, separators=(",", ":")).encode()

    def _read(self, answer: HttpAnswer) -> PolicyReply | None:
        return read_response(answer.body)


def _flat_format(response_format: dict[str, Any]) -> dict[str, Any]:
    """Responses wants the schema's keys beside `type`; the reference's jobs carry them nested."""
    nested = response_format.get("json_schema")
    return {"type": "json_schema", **nested} if isinstance(nested, dict) else response_format


def _input_parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """One message of the conversation as input items."""
    role = message.get("role")
    if role == "tool":
        return [
            {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message.get("content") or ""}
        ]
    if role != "assistant":
        return [{"role": role, "content": message.get("content") or ""}]
    parts = list((message.get("opaque") or {}).get("reasoning") or [])
    if message.get("content"):
        parts.append({"role": "assistant", "content": message["content"]})
    calls = message.get("tool_calls") or []
    return parts + [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in calls]


def read_response(body: bytes) -> PolicyReply | None:
    """The output items as one reply; None when this is no response."""
    try:
        payload = json.loads(body)
        items = payload["output"]
        usage = payload.get("usage") or {}
        reply = PolicyReply(
            input_tokens=int(usage.get("input_tokens") or 0), output_tokens=int(usage.get("output_tokens") or 0)
        )
        for item in items:
            _add_item(reply, item)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    reason = (payload.get("incomplete_details") or {}).get("reason")
    if reason == "max_output_tokens":
        reply.finish_reason = "length"
    elif reason:
        reply.finish_reason = str(reason)
    else:
        reply.finish_reason = "tool_calls" if reply.tool_calls else "stop"
    return reply


def _add_item(reply: PolicyReply, item: dict[str, Any]) -> None:
    kind = item.get("type")
    if kind == "message":
        for part in item.get("content") or []:
            reply.text += part.get("text") or part.get("refusal") or ""
    elif kind == "function_call":
        function = {"name": item.get("name") or "", "arguments": item.get("arguments") or ""}
        reply.tool_calls.append({"id": item.get("call_id") or "", "type": "function", "function": function})
    elif kind == "reasoning":
        summary = [part.get("text") or "" for part in item.get("summary") or []]
        reply.reasoning = "\n\n".join(text for text in [reply.reasoning, *summary] if text)
        if item.get("encrypted_content"):
            reply.opaque.setdefault("reasoning", []).append(item)
