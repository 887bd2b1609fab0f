"""`POST /v1/responses` for the same models as chat completions: translated to chat, answered as a response.

Nothing is stored, so a conversation is sent whole; what would need a store is refused.
"""

import time
from functools import partial
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from rftstudio.api import chat, responses_stream, serving
from rftstudio.api.doors import actor_of, body_of, door
from rftstudio.core.errors import UserError
from rftstudio.core.ids import new_id
from rftstudio.teams.permissions import Permission

#: Of the reference, and without a counterpart in chat completions.
UNUSED = ("max_tool_calls", "include", "top_logprobs", "context_management", "moderation")
STORED = {"previous_response_id", "conversation", "background", "prompt"}
KNOWN = STORED | serving.WITHOUT_EFFECT | {
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p",
    "max_output_tokens", "max_tool_calls", "text", "reasoning", "include", "stream", "stream_options", "truncation",
    "top_logprobs", "context_management", "moderation",
}  # fmt: skip


class ResponseWire(serializers.Serializer):
    model = serializers.CharField()
    input = serializers.JSONField(help_text="A text, or a list of input items.")
    instructions = serializers.CharField(required=False, allow_null=True)
    stream = serializers.BooleanField(required=False)


@door("POST", "createResponse", summary="Ask a model (Responses)", body=ResponseWire,
      statuses=(400, 401, 403, 404, 405, 409, 413, 415, 503))  # fmt: skip
def response_create(request: Request) -> Any:
    """Function tools and text. The whole conversation is sent each time."""
    actor = actor_of(request, Permission.EVALUATION_RUN)
    body = body_of(request, known=KNOWN)
    needs = [name for name in sorted(STORED) if body.get(name)]
    if needs:
        raise UserError(f"{needs[0]} needs stored responses, and nothing is stored here.", where=needs[0],
                        fix="Send the whole conversation as input.")  # fmt: skip
    served = serving.served_find(actor=actor, name=body.get("model"))
    asked = chat_body(body)
    asked["messages"] = serving.plain_messages(asked["messages"], is_local=served.is_local)
    if not isinstance(body.get("stream"), bool | None):
        raise UserError("stream must be true or false.", where="stream")
    if not body.get("stream"):
        return wire_response(body, chat.complete(actor, served, asked))
    spoken = chat.passed_on(actor, served, asked | {"stream": True, "stream_options": {"include_usage": True}})
    answer = chat.sse(responses_stream.events(spoken, partial(wire_response, body)), is_named=True)
    answer._resource_closers.append(spoken.close)  # type: ignore[attr-defined]
    return answer


def without_effect(body: dict[str, Any]) -> list[str]:
    """What chat has no place for; told in the answer, so that nothing is ignored in silence."""
    text, reasoning, options = (body.get(name) or {} for name in ("text", "reasoning", "stream_options"))
    found = [name for name in UNUSED if body.get(name)]
    found += ["truncation"] if body.get("truncation") not in (None, "disabled") else []
    found += ["text.verbosity"] if isinstance(text, dict) and text.get("verbosity") else []
    found += ["reasoning.summary"] if isinstance(reasoning, dict) and reasoning.get("summary") else []
    found += ["stream_options.include_obfuscation"] if isinstance(options, dict) and options else []
    return found


def chat_body(body: dict[str, Any]) -> dict[str, Any]:
    """The same question as Chat Completions puts it."""
    messages = _messages(body.get("input"))
    if body.get("instructions"):
        messages.insert(0, {"role": "developer", "content": str(body["instructions"])})
    asked: dict[str, Any] = {"messages": messages, "max_completion_tokens": body.get("max_output_tokens")}
    asked |= {key: body.get(key) for key in ("temperature", "top_p", "tool_choice", "parallel_tool_calls")}
    if tools := body.get("tools"):
        asked["tools"] = [_tool(tool, place) for place, tool in enumerate(_list(tools, "tools"))]
    text, reasoning = body.get("text"), body.get("reasoning")
    form = text.get("format") if isinstance(text, dict) else None
    if isinstance(form, dict) and form.get("type") == "json_object":
        asked["response_format"] = {"type": "json_object"}
    elif isinstance(form, dict) and form.get("type") == "json_schema":
        asked["response_format"] = {
            "type": "json_schema",
            "json_schema": {k: v for k, v in form.items() if k != "type"},
        }
    if isinstance(reasoning, dict) and reasoning.get("effort"):
        asked["reasoning_effort"] = reasoning["effort"]
    return {key: value for key, value in asked.items() if value is not None}


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise UserError(f"{where} must be a list.", where=where, code="invalid_type")
    return value


def _tool(tool: Any, place: int) -> dict[str, Any]:
    if not isinstance(tool, dict) or tool.get("type") != "function" or not isinstance(tool.get("name"), str):
        raise UserError("Only function tools can be used here.", where=f"tools[{place}]")
    keys = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {key: tool[key] for key in keys if tool.get(key) is not None}}


def _messages(given: Any) -> list[dict[str, Any]]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages: list[dict[str, Any]] = []
    for place, item in enumerate(_list(given, "input")):
        _add(messages, item, f"input[{place}]")
    if not messages:
        raise UserError("input is empty.", where="input")
    return messages


def _add(messages: list[dict[str, Any]], item: Any, where: str) -> None:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind == "message":
        messages.append({"role": str(item.get("role") or "user"), "content": _content(item.get("content"), where)})
    elif kind == "function_call":
        function = {"name": str(item.get("name") or ""), "arguments": str(item.get("arguments") or "")}
        call = {"id": str(item.get("call_id") or ""), "type": "function", "function": function}
        if messages and messages[-1]["role"] == "assistant":
            messages[-1].setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif kind == "function_call_output":
        output = item.get("output")
        text = output if isinstance(output, str) else _content(output, where)
        messages.append({"role": "tool", "tool_call_id": str(item.get("call_id") or ""), "content": text})
    elif kind != "reasoning":  # a model's own notes from an earlier turn: these models take none back
        raise UserError(f"An input item of the type {str(kind)[:40]!r} cannot be used here.", where=f"{where}.type")


def _content(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    parts = _list(content, f"{where}.content")
    if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise UserError("Only text can be sent here.", where=f"{where}.content")
    return "".join(part["text"] for part in parts)


def wire_response(body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    choice, usage, studio = answer["choices"][0], answer["usage"], answer["studio"]
    if dropped := without_effect(body):
        studio = {**studio, "without_effect": sorted({*studio.get("without_effect", []), *dropped})}
    is_cut = choice["finish_reason"] == "length"
    status = "incomplete" if is_cut else "completed"
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": answer["model"],
        "output": _output(choice["message"], status),
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
        "store": False,
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"],
        },
        "studio": studio,
    }


def _output(message: dict[str, Any], status: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    calls = message.get("tool_calls") or []
    if message.get("content") or not calls:
        part: dict[str, Any] = {
            "type": "output_text",
            "text": message.get("content") or "",
            "annotations": [],
            "logprobs": [],
        }
        items.append(
            {"id": new_id("msg_"), "type": "message", "role": "assistant", "status": status, "content": [part]}
        )
    for call in calls:
        items.append({"id": new_id("fc_"), "type": "function_call", "call_id": call["id"], "status": "completed",
                      **call["function"]})  # fmt: skip
    return items
