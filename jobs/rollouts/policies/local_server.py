"""A process that serves one model folder as OpenAI chat completions:
`python jobs/rollouts/policies/local_server.py MODEL STATE_DIR`.

It is for the small models of the embedded default and for checkpoints on this machine; on GPUs a deployment runs vLLM
with the same folder. It listens on the loopback interface only, takes a free port and writes it to `STATE_DIR/port`
when it is ready. It ends itself when nobody asked for a while and when its supervisor is gone.

`/v1/chat/completions` (whole or as a stream, with `stop` and `logprobs`), `/v1/models`, `/v1/score` (how likely a text is
after conversations), `/health`. Requests that arrive together are generated together;
with a `seed` a request's tokens do not depend on its neighbours. Beyond the OpenAI shape each answer carries `studio`:
`{"logprob_sum", "entropy_mean"}` over the tokens the model wrote, in nats.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import argparse
import itertools
import json
import queue
import random
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# The root comes last: its package `datasets` must not hide the Hugging Face library of that name.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() not in {ROOT, Path(__file__).resolve().parent}]
sys.path.append(str(ROOT))

MAX_BODY = 16_000_000
GATHER_SECONDS = 0.004  # how long the first request of a batch waits for company
DEFAULT_MAX_TOKENS = 512


class BadRequest(Exception):
    """The request cannot be answered; the text is shown to whoever asked."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class Batcher:
    """One thread owns the model; requests queue up and are generated together."""

    def __init__(self, chat: Any) -> None:
        self.chat = chat
        self.queue: queue.SimpleQueue[tuple[Any, Future]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="batcher", daemon=True).start()

    def submit(self, ask: Any) -> Future:
        future: Future = Future()
        self.queue.put((ask, future))
        return future

    def _work(self) -> None:
        while True:
            batch = [self.queue.get()]
            limit = time.monotonic() + GATHER_SECONDS
            while len(batch) < self.chat.max_batch:
                try:
                    batch.append(self.queue.get(timeout=max(0.0, limit - time.monotonic())))
                except queue.Empty:
                    break
            self._answer(batch)

    def _answer(self, batch: list[tuple[Any, Future]]) -> None:
        try:
            results = self.chat.generate([ask for ask, _ in batch])
        except Exception as exc:
            for _, future in batch:
                future.set_exception(exc)
            return
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)


class Service:
    """Requests in the OpenAI shape, answered by the model."""

    def __init__(self, chat: Any, name: str) -> None:
        self.chat, self.name = chat, name
        self.batcher = Batcher(chat)
        self.last_asked = time.monotonic()
        self.scoring = threading.Lock()  # one at a time: each fills a batch by itself

    def score(self, body: dict[str, Any]) -> dict[str, Any]:
        """`{"conversations", "tools", "text"}` to the text's mean log-probability per token after each conversation."""
        from jobs.rollouts.policies.scoring import mean_logprobs

        conversations, text = body.get("conversations"), body.get("text")
        if not isinstance(conversations, list) or not all(isinstance(one, list) and one for one in conversations):
            raise BadRequest("conversations must be lists of messages.", "conversations")
        answer = self.chat.tokenizer(text, add_special_tokens=False)["input_ids"] if isinstance(text, str) else []
        if not answer:
            raise BadRequest("text must be a text of at least one token.", "text")
        prompts = [self.chat.prompt_ids(messages, body.get("tools") or []) for messages in conversations]
        with self.scoring:
            self.last_asked = time.monotonic()
            found = mean_logprobs(self.chat, prompts, list(answer))
        self.last_asked = time.monotonic()
        return {"logprobs": found, "tokens": sum(len(prompt) + len(answer) for prompt in prompts)}

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        self.last_asked = time.monotonic()
        ask = self._ask(body)
        return self._answer(body, ask, self.batcher.submit(ask).result())

    def stream(self, body: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        """Pieces of an answer while it is written; tool calls come whole, at the end."""
        self.last_asked = time.monotonic()
        said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        ask = self._ask(body, tell=said.put)
        prefix, shown, options = self.chat.tokenizer.decode(ask.prompt[-64:]), "", body.get("stream_options")
        future = self.batcher.submit(ask)
        future.add_done_callback(lambda _: said.put(None))
        base = {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": "chat.completion.chunk", "created": int(time.time()),
                "model": self.name}  # fmt: skip
        try:
            yield base | piece({"role": "assistant", "content": ""})
            while (text := said.get()) is not None:
                content = self.chat.reader.early(text, prefix=prefix)
                if len(content) > len(shown) and content.startswith(shown):
                    yield base | piece({"content": content[len(shown) :]})
                    shown = content
            answer = self._answer(body, ask, future.result())
        finally:
            ask.watch.is_wanted = False
        choice, delta = answer["choices"][0], {}
        whole, calls = choice["message"]["content"] or "", choice["message"].get("tool_calls")
        if len(whole) > len(shown) and whole.startswith(shown):
            delta["content"] = whole[len(shown) :]
        if calls:
            delta["tool_calls"] = [{"index": place, **call} for place, call in enumerate(calls)]
        if delta:
            yield base | piece(delta)
        yield base | piece({}, choice["finish_reason"])
        if isinstance(options, dict) and options.get("include_usage"):
            yield base | {"choices": [], "usage": answer["usage"]}

    def _ask(self, body: dict[str, Any], tell: Callable[[str], None] | None = None) -> Any:
        from jobs.rollouts.policies.following import Follow
        from jobs.rollouts.policies.generation import Ask

        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise BadRequest("messages must be a list with at least one message.", "messages")
        if body.get("n") not in (None, 1):
            raise BadRequest("n must be 1; ask several times instead.", "n")
        prompt = self.chat.prompt_ids(messages, body.get("tools") or [])
        wanted = body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_MAX_TOKENS
        room = self.chat.context - len(prompt)
        if room < 1:
            raise BadRequest(f"The conversation has {len(prompt)} tokens; {self.chat.context} fit.", "messages")
        stops = stops_of(body)
        return Ask(
            prompt,
            min(number(body, "max_tokens", float(wanted), 1, 1e9, int), room),
            random.Random(body.get("seed")).random,  # noqa: S311
            number(body, "temperature", 1.0, 0, 5, float),
            number(body, "top_p", 1.0, 1e-6, 1, float),
            Follow(self.chat.tokenizer.decode, stops, tell) if stops or tell else None,
        )

    def _answer(self, body: dict[str, Any], ask: Any, generation: Any) -> dict[str, Any]:
        self.last_asked = time.monotonic()
        reply = self.chat.reply(ask, generation, text=ask.watch.text if ask.watch and ask.watch.is_cut else None)
        logprobs = self._logprobs(generation) if body.get("logprobs") else None
        calls = [{**call, "id": f"call_{secrets.token_hex(8)}"} for call in reply.tool_calls]
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if calls:
            message["tool_calls"] = calls
        else:
            message["content"] = reply.text
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason, "logprobs": logprobs}],
            "usage": {
                "prompt_tokens": reply.input_tokens,
                "completion_tokens": reply.output_tokens,
                "total_tokens": reply.input_tokens + reply.output_tokens,
            },
            "studio": {"logprob_sum": reply.logprob_sum, "entropy_mean": reply.entropy_mean},
        }

    def _logprobs(self, generation: Any) -> dict[str, Any]:
        """Of each token that was drawn, its closing token left out. Those of the tokens that were not are not kept."""
        told = []
        for token, logprob in zip(generation.ids, generation.logprobs, strict=True):
            if token not in self.chat.eos_ids:
                text = self.chat.tokenizer.decode([token])
                told.append({"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []})
        return {"content": told, "refusal": None}


def piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}


def stops_of(body: dict[str, Any]) -> list[str]:
    wanted = body.get("stop")
    wanted = [wanted] if isinstance(wanted, str) else wanted or []
    if not isinstance(wanted, list) or len(wanted) > 4 or not all(isinstance(one, str) and one for one in wanted):
        raise BadRequest("stop must be a text, or a list of at most four.", "stop")
    return wanted


def number(body: dict[str, Any], name: str, default: float, low: float, high: float, kind: type) -> Any:
    value = body.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadRequest(f"{name} must be a number from {low:g} to {high:g}.", name)
    return kind(value)


class Handler(BaseHTTPRequestHandler):
    """Routes and the error envelope. HTTP/1.1 keeps connections open, which a batch of rollouts is glad of."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: Service

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        if path == "/health":
            self._send(200, {"status": "ok", "model": self.service.name, "pid": os.getpid()})
        elif path == "/v1/models":
            model = {"id": self.service.name, "object": "model", "created": 0, "owned_by": "studio"}
            self._send(200, {"object": "list", "data": [model]})
        else:
            self._refuse(404, f"There is no {path}.")

    def do_POST(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        answer = {"/v1/chat/completions": self.service.complete, "/v1/score": self.service.score}.get(path)
        if answer is None:
            return self._refuse(404, f"There is no {self.path}.")
        try:
            size = int(self.headers.get("Content-Length") or 0)
            if size > MAX_BODY:
                self.close_connection = True
                return self._refuse(413, "The request is too large.")
            body = json.loads(self.rfile.read(size))
            if not isinstance(body, dict):
                raise BadRequest("The body must be a JSON object.")
            if body.get("stream") and path == "/v1/chat/completions":
                return self._send_stream(self.service.stream(body))
            return self._send(200, answer(body))
        except BadRequest as exc:
            return self._refuse(400, str(exc), exc.param)
        except (ValueError, TypeError, KeyError) as exc:
            return self._refuse(400, f"The request cannot be read: {exc}")
        except (BrokenPipeError, ConnectionResetError):
            return None
        except Exception as exc:
            return self._refuse(500, f"The model failed: {type(exc).__name__}: {exc}")

    def _refuse(self, status: int, message: str, param: str | None = None) -> None:
        kind = "invalid_request_error" if status < 500 else "server_error"
        self._send(status, {"error": {"message": message, "type": kind, "param": param, "code": None}})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_stream(self, pieces: Generator[dict[str, Any], None, None]) -> None:
        """Server-sent events. The first piece is made before the status goes out: a refusal is still an answer then."""
        first = next(pieces)
        self.close_connection = True  # its end is the answer's end
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for one in itertools.chain([first], pieces):
                self.wfile.write(b"data: " + json.dumps(one, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # whoever asked has gone
        except Exception as exc:  # the status is out: the error comes as a piece
            told = {"message": f"The model failed: {type(exc).__name__}: {exc}", "type": "server_error"}
            self.wfile.write(
                b"data: " + json.dumps({"error": {**told, "param": None, "code": None}}).encode() + b"\n\n"
            )
        finally:
            pieces.close()

    def log_message(self, *_: Any) -> None:
        """Silent: what was asked is recorded where it was asked."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def watch(server: Server, service: Service, idle_seconds: float) -> None:
    """End the server when it idles or its supervisor is gone."""
    from jobs.rollouts.policies.lifeline import supervisor_is_gone

    while time.monotonic() - service.last_asked < idle_seconds and not supervisor_is_gone():
        time.sleep(min(1.0, idle_seconds / 4))
    server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a model folder as OpenAI chat completions.")
    parser.add_argument("model", help="folder or hub name")
    parser.add_argument("state_dir", type=Path, help="where port and pid are written")
    parser.add_argument("--name", help="model name in answers (default: the model argument)")
    parser.add_argument("--idle", type=float, default=300.0, help="seconds without a request before it ends")
    parser.add_argument("--max-batch", type=int, default=64)
    given = parser.parse_args()
    if Path(given.model).is_dir():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    import torch

    from jobs.rollouts.policies.hf_chat import load_chat

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    service = Service(load_chat(given.model, max_batch=given.max_batch), given.name or given.model)
    server = Server(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"service": service}))
    port_file = given.state_dir / "port"
    fresh = given.state_dir / f"port.{os.getpid()}.new"
    fresh.write_text(f"{server.server_address[1]}\n")
    fresh.replace(port_file)
    threading.Thread(target=watch, args=(server, service, given.idle), daemon=True).start()
    try:
        server.serve_forever(poll_interval=0.5)
    finally:
        if port_file.is_file() and port_file.read_text().strip() == str(server.server_address[1]):
            port_file.unlink(missing_ok=True)
        server.server_close()


if __name__ == "__main__":
    main()
