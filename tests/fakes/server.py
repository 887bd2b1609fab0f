"""Real HTTP servers for tests and the bench: asyncio in a thread of its own, on a free port of this machine.

`ToolServer` speaks the wire shape of Agent RFT tools and graders, `ModelServer` Chat Completions. Both keep what they
were sent and can be told to misbehave.
"""

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Handler = Callable[["Request"], "Awaitable[Reply] | Reply"]


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    cut: bool = False  # close the connection without an answer

    @classmethod
    def of(cls, payload: Any, status: int = 200, **options: Any) -> "Reply":
        return cls(status, json.dumps(payload).encode(), **options)


class HttpServer:
    """Answers each request with `handler(request)`. Use as a context manager; `url` is its address."""

    def __init__(self, handler: Handler, *, keep: bool = True) -> None:
        self.handler = handler
        self.keep = keep
        self.requests: list[Request] = []
        self.open_now = 0
        self.open_most = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "HttpServer":
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2048))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read(reader):
                if self.keep:
                    self.requests.append(request)
                self.open_now += 1
                self.open_most = max(self.open_most, self.open_now)
                try:
                    reply = self.handler(request)
                    reply = await reply if asyncio.iscoroutine(reply) else reply
                    await asyncio.sleep(reply.seconds)
                finally:
                    self.open_now -= 1
                if reply.cut:
                    break
                writer.write(_bytes(reply))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def _bytes(reply: Reply) -> bytes:
    headers = {"Content-Type": "application/json", "Content-Length": str(len(reply.body)), **reply.headers}
    lines = [f"HTTP/1.1 {reply.status} x", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + reply.body


class ToolServer(HttpServer):
    """A tool server as written for the hosted service. `script` holds replies given first, whatever is asked."""

    def __init__(
        self, answer: Callable[[dict[str, Any]], str] | None = None, *, seconds: float = 0.0, **options
    ) -> None:
        super().__init__(self._answer, **options)
        self.answer = answer or (lambda call: f"{call['name']} was called with {call['arguments']}")
        self.script: list[Reply] = []
        self.seconds = seconds

    def _answer(self, request: Request) -> Reply:
        if self.script:
            return self.script.pop(0)
        call = request.json()
        output = {
            "type": "function_call_output",
            "call_id": call["call_id"],
            "id": call["id"],
            "output": self.answer(call),
        }
        return Reply.of(output, seconds=self.seconds)

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [request.json() for request in self.requests]


class ModelServer(HttpServer):
    """Chat Completions. `answer(messages, tools)` returns a message; `script` holds replies given first."""

    def __init__(self, answer: Callable[[list, list], dict[str, Any]], *, seconds: float = 0.0, **options) -> None:
        super().__init__(self._answer, **options)
        self.answer = answer
        self.script: list[Reply] = []
        self.seconds = seconds

    def _answer(self, request: Request) -> Reply:
        if self.script:
            return self.script.pop(0)
        asked = request.json()
        message = {"role": "assistant", "content": None, **self.answer(asked["messages"], asked.get("tools") or [])}
        if asked.get("stream"):
            return Reply(body=streamed(completion(message)), headers={"Content-Type": "text/event-stream"})
        return Reply.of(completion(message, asked.get("model", "")), seconds=self.seconds)


def streamed(whole: dict[str, Any]) -> bytes:
    """A completion as server-sent events: who speaks, each word, the calls, how it ended, the usage."""
    message, base = whole["choices"][0]["message"], {**whole, "object": "chat.completion.chunk"}
    words = re.findall(r"\S+\s*", message.get("content") or "")
    calls = [{"index": place, **call} for place, call in enumerate(message.get("tool_calls") or [])]
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
    deltas += [{"tool_calls": calls}] if calls else []
    pieces = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    pieces.append({"index": 0, "delta": {}, "finish_reason": whole["choices"][0]["finish_reason"]})
    told = [{**base, "choices": [one], "usage": None} for one in pieces] + [{**base, "choices": []}]
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in told) + b"data: [DONE]\n\n"


def completion(message: dict[str, Any], model: str = "fake", **extra: Any) -> dict[str, Any]:
    """A chat completion that holds one message."""
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27},
        **extra,
    }
