"""`POST /v1/chat/completions` for tuned models, aliases and the team's models, whole or as a stream.

`studio` in the answer, or in the first piece of a stream, says which model stands behind the name and what of the request had
no effect. Several choices of weights on this machine are generated together and streamed when they are done.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework import serializers
from rest_framework.request import Request

from rftstudio.api import serving
from rftstudio.api.doors import actor_of, body_of, door
from rftstudio.core.errors import StudioError, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission

KNOWN = serving.READ | serving.WITHOUT_EFFECT | {
    "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "response_format", "stop",
    "tool_choice", "parallel_tool_calls", "reasoning_effort", "verbosity", "modalities", "audio", "prediction",
    "web_search_options", "functions", "function_call", "top_k", "min_p", "moderation",
}  # fmt: skip


class ChatWire(serializers.Serializer):
    model = serializers.CharField()
    messages = serializers.ListField(child=serializers.DictField())
    temperature = serializers.FloatField(required=False)
    max_completion_tokens = serializers.IntegerField(required=False)
    seed = serializers.IntegerField(required=False)
    stream = serializers.BooleanField(required=False)


class ChatAnswerWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    created = serializers.IntegerField()
    model = serializers.CharField()
    choices = serializers.ListField(child=serializers.DictField())
    usage = serializers.DictField()
    studio = serializers.DictField()


@door("POST", "createChatCompletion", summary="Ask a model", body=ChatWire, answer=ChatAnswerWire,
      statuses=(400, 401, 403, 404, 405, 409, 413, 415, 503))  # fmt: skip
def chat_create(request: Request) -> Any:
    """Tuned models are asked by the name that the job and its checkpoints give."""
    actor = actor_of(request, Permission.EVALUATION_RUN)
    body = body_of(request, known=KNOWN)
    served = serving.served_find(actor=actor, name=body.get("model"))
    body["messages"] = serving.plain_messages(body.get("messages"), is_local=served.is_local)
    if not isinstance(body.get("stream"), bool | None):
        raise UserError("stream must be true or false.", where="stream")
    if body.get("stream") and (not served.is_local or serving.choices_of(body) == 1):
        return passed_on(actor, served, body)
    answer = complete(actor, served, body)
    if body.get("stream"):
        return sse(chunks(answer, with_usage=_with_usage(body)))
    return answer


def complete(actor: Actor, served: serving.Served, body: dict[str, Any]) -> dict[str, Any]:
    """One whole answer, paid for."""
    dropped = serving.ignored(body) if served.is_local else []
    sent = {key: value for key, value in body.items() if key not in dropped} | {"model": served.endpoint.model}
    with serving.paid(actor, served) as used:
        answer = serving.ask(served, sent)
        used.append(answer["usage"])
    told: Any = answer.get("studio") if isinstance(answer.get("studio"), dict) else {}
    return answer | {
        "model": served.name,
        "studio": {**told, "model": served.endpoint.name} | ({"without_effect": dropped} if dropped else {}),
    }


def _with_usage(body: dict[str, Any]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def chunks(answer: dict[str, Any], *, with_usage: bool) -> Iterator[dict[str, Any]]:
    """A whole answer as the stream of one: who speaks, what is said, how it ended."""
    base = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    if with_usage:
        base["usage"] = None
    for choice in answer["choices"]:
        message = choice["message"]
        delta: dict[str, Any] = {"role": "assistant", "content": message.get("content")}
        if calls := message.get("tool_calls"):
            delta["tool_calls"] = [{"index": place, **call} for place, call in enumerate(calls)]
        yield base | {"choices": [_piece(choice, delta, None)], "studio": answer["studio"]}
        yield base | {"choices": [_piece(choice, {}, choice["finish_reason"])]}
    if with_usage:
        yield base | {"choices": [], "usage": answer["usage"]}


def _piece(choice: dict[str, Any], delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": choice["index"], "delta": delta, "finish_reason": finish, "logprobs": None}


def sse(events: Iterable[dict[str, Any]], *, is_named: bool = False) -> StreamingHttpResponse:
    """Server-sent events, ended as the reference's clients expect."""

    def lines() -> Iterator[bytes]:
        for event in events:
            name = f"event: {event['type']}\n" if is_named else ""
            yield f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        if not is_named:
            yield b"data: [DONE]\n\n"

    return _stream(lines())


def _stream(lines: Iterable[bytes]) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(lines, content_type="text/event-stream; charset=utf-8")
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    return answer


def passed_on(actor: Actor, served: serving.Served, body: dict[str, Any]) -> StreamingHttpResponse:
    """A model's stream, piece by piece. Its usage is asked for, so that it can be booked, and shown if wanted."""
    wants, dropped = _with_usage(body), serving.ignored(body) if served.is_local else []
    options: Any = body.get("stream_options") if isinstance(body.get("stream_options"), dict) else {}
    sent = {key: value for key, value in body.items() if key not in dropped} | {
        "model": served.endpoint.model,
        "stream_options": {**options, "include_usage": True},
    }
    studio: dict[str, Any] = {"model": served.endpoint.name} | ({"without_effect": dropped} if dropped else {})
    lines = serving.stream_lines(served, {key: value for key, value in sent.items() if value is not None})
    stack = ExitStack()
    used = stack.enter_context(serving.paid(actor, served))
    stack.callback(_hear_out, lines, used)  # before it is booked
    try:
        first = next(lines)  # a refusal comes out here, while it can still be an answer of its own
    except BaseException:
        stack.close()
        raise

    def told() -> Iterator[bytes]:
        with stack:
            ours: dict[str, Any] = {"model": served.name, "studio": studio}
            for line in itertools.chain([first], lines):
                if shown := _renamed(line, ours, used, wants=wants):
                    if shown.startswith(b"data: {"):
                        ours = {"model": served.name}
                    yield shown

    answer = _stream(told())
    # Closed even if nobody reads it.
    answer._resource_closers.append(stack.close)  # type: ignore[attr-defined]
    return answer


def _hear_out(lines: Iterator[bytes], used: list[dict[str, Any]]) -> None:
    """Whoever leaves early has bought what is being written; what it cost is the last thing that a stream says."""
    with suppress(StudioError):
        for line in lines:
            _renamed(line, {}, used, wants=False)


def _renamed(line: bytes, ours: dict[str, Any], used: list[dict[str, Any]], *, wants: bool) -> bytes:
    """A line of the stream with what is ours: the name that was asked for, and at first `studio`. Usage is noted, and kept
    back where nobody wants it."""
    if not line.startswith(b"data: {"):
        return line
    try:
        piece = json.loads(line[6:])
    except ValueError:
        return line
    if isinstance(piece.get("usage"), dict):
        used[:] = [piece["usage"]]  # said more than once, it is the sum so far
        if not piece.get("choices") and not wants:
            return b""
    return b"data: " + json.dumps(piece | ours, ensure_ascii=False).encode() + b"\n"
