"""A response while it is written: the pieces of a chat stream as the events of the Responses API."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rftstudio.core.errors import StudioError
from rftstudio.core.ids import new_id


class Heard:
    """What has come so far: the text, the calls, how it ended."""

    def __init__(self) -> None:
        self.text, self.finish, self.usage = "", "", {"prompt_tokens": 0, "completion_tokens": 0}
        self.calls: dict[int, dict[str, Any]] = {}
        self.told: dict[str, Any] = {}

    def take(self, piece: dict[str, Any]) -> str:
        """Note a piece; returns the words that are new."""
        self.told |= {key: piece[key] for key in ("model", "studio") if key in piece}
        if isinstance(piece.get("usage"), dict):
            self.usage = piece["usage"]
        words = ""
        for choice in piece.get("choices") or ():
            delta = choice.get("delta") or {}
            words += delta.get("content") or ""
            for call in delta.get("tool_calls") or ():
                self._call(call)
            self.finish = choice.get("finish_reason") or self.finish
        self.text += words
        return words

    def _call(self, part: dict[str, Any]) -> None:
        call = self.calls.setdefault(part.get("index") or 0, {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = part.get("id") or call["id"]
        for key, value in (part.get("function") or {}).items():
            if key in call["function"]:
                call["function"][key] += value or ""

    def whole(self) -> dict[str, Any]:
        """As a chat completion that was not streamed."""
        message = {"content": self.text, "tool_calls": [self.calls[place] for place in sorted(self.calls)]}
        choices = [{"message": message, "finish_reason": self.finish or "stop"}]
        return {"model": "", "studio": {}, **self.told, "choices": choices, "usage": self.usage}


def pieces(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def events(lines: Iterable[bytes], tell: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Events in order, numbered. `tell` makes the response of a whole chat completion."""
    number = 0
    try:
        for event in _events(lines, tell):
            yield event | {"sequence_number": number}
            number += 1
    except StudioError as fault:
        yield _error(fault.code, str(fault)) | {"sequence_number": number}


def _events(lines: Iterable[bytes], tell: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    heard, open_now = Heard(), False
    own = {"id": new_id("resp_"), "created_at": int(time.time())}
    message: dict[str, Any] = {"id": new_id("msg_"), "type": "message", "role": "assistant", "status": "in_progress"}
    at = {"output_index": 0, "item_id": message["id"], "content_index": 0}
    begun = False
    for piece in pieces(lines):
        if isinstance(piece.get("error"), dict):
            yield _error(**{key: piece["error"].get(key) for key in ("code", "message", "param")})
            return
        words = heard.take(piece)
        if not begun:
            begun = True
            for kind in ("response.created", "response.in_progress"):
                yield {"type": kind, "response": _open(tell(heard.whole()) | own)}
        if words and not open_now:
            open_now = True
            yield {"type": "response.output_item.added", "output_index": 0, "item": message | {"content": []}}
            yield {"type": "response.content_part.added", "part": _part(""), **at}
        if words:
            yield {"type": "response.output_text.delta", "delta": words, "logprobs": [], **at}
    if not heard.finish:
        yield _error("model_stopped", "The model stopped in the middle of its answer.")
        return
    told = tell(heard.whole()) | own
    if told["output"] and told["output"][0]["type"] == "message":
        told["output"][0]["id"] = message["id"]
    for place, item in enumerate(told["output"]):
        yield from _ended(place, item, is_open=open_now)
    ended = "response.incomplete" if told["status"] == "incomplete" else "response.completed"
    yield {"type": ended, "response": told}


def _error(code: str | None, message: str | None, param: str | None = None) -> dict[str, Any]:
    return {"type": "error", "code": code, "message": message, "param": param}


def _open(told: dict[str, Any]) -> dict[str, Any]:
    return told | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _ended(place: int, item: dict[str, Any], *, is_open: bool) -> Iterator[dict[str, Any]]:
    """The end of an item; one of which nothing was told yet begins first."""
    at = {"output_index": place, "item_id": item["id"]}
    is_message = item["type"] == "message"
    if not is_message or not is_open:
        empty: dict[str, Any] = {"content": []} if is_message else {"arguments": ""}
        yield {
            "type": "response.output_item.added",
            "output_index": place,
            "item": item | {"status": "in_progress"} | empty,
        }
    if is_message:
        at_part, part = at | {"content_index": 0}, item["content"][0]
        if not is_open:
            yield {"type": "response.content_part.added", "part": _part(""), **at_part}
        yield {"type": "response.output_text.done", "text": part["text"], "logprobs": [], **at_part}
        yield {"type": "response.content_part.done", "part": part, **at_part}
    else:
        yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"], **at}
        yield {
            "type": "response.function_call_arguments.done",
            "arguments": item["arguments"],
            "name": item["name"],
            **at,
        }
    yield {"type": "response.output_item.done", "output_index": place, "item": item}
