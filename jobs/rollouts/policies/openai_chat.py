"""A policy behind any OpenAI-compatible Chat Completions endpoint. Portable; the HTTP client is handed in.

It writes the request itself instead of going through the SDK: at hundreds of calls a second the SDK's models cost
more time than the network, and a server's extra keys (`studio`, `reasoning_content`) must come through.
"""

import asyncio
import json
import random
import re
from typing import Any
from urllib.parse import urlsplit

from graders.hiding import scrub
from jobs.agents.tools.http_types import HttpAnswer, HttpClient
from jobs.rollouts.engine.types import PolicyError, PolicyReply

MAX_TRIES = 5
MAX_PAUSE = 30.0
MAX_REPLY_BYTES = 16_000_000
REPLY_SECONDS = 600.0
#: Statuses that may heal by themselves: too early, conflict of locks, rate limit, overload.
TRANSIENT = {408, 409, 425, 429}
#: Hosts that speak the newest dialect: role `developer` and `max_completion_tokens`.
_NEW_DIALECT = ("api.openai.com", ".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
#: How servers say that a conversation no longer fits; there is no common code.
_CONTEXT_FULL = re.compile(
    r"context[_ ]length|maximum (context|model) length|context window|exceeds? the (available )?context"
    r"|conversation has \d+ tokens; \d+ fit",
    re.I,
)
_PASSED_ON = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "reasoning_effort",
    "parallel_tool_calls",
    "logit_bias",
    "extra_body",
)


class OpenAIChatPolicy:
    """Answers by `POST {base_url}/chat/completions`; transient faults are tried again before PolicyError."""

    path = "/chat/completions"

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        model: str,
        sampling: dict[str, Any] | None = None,
        response_format: dict[str, Any] | None = None,
        http: HttpClient,
        headers: dict[str, str] | None = None,
        max_tries: int = MAX_TRIES,
        first_pause: float = 0.5,
    ) -> None:
        base, _, query = base_url.partition("?")  # Azure carries its api-version there
        self.url = base.rstrip("/") + self.path + (f"?{query}" if query else "")
        self.hidden = [api_key] if len(api_key) >= 4 else []
        self.headers = {"Content-Type": "application/json", **(headers or {})}
        if api_key:
            self.headers["Authorization"] = f"Bearer {api_key}"
            if ".azure.com" in base:
                self.headers["api-key"] = api_key
        host = urlsplit(base).hostname or ""
        self.is_new_dialect = host.endswith(_NEW_DIALECT)
        self.fixed = self._fixed_fields(model, sampling or {}, response_format)
        self.http = http
        self.max_tries = max_tries
        self.first_pause = first_pause

    def _fixed_fields(self, model: str, sampling: dict[str, Any], response_format: dict | None) -> dict[str, Any]:
        fields = {"model": model}
        fields |= {key: sampling[key] for key in _PASSED_ON if sampling.get(key) is not None and key != "extra_body"}
        fields |= sampling.get("extra_body") or {}
        limit = sampling.get("max_completion_tokens") or sampling.get("max_tokens")
        if limit:
            fields["max_completion_tokens" if self.is_new_dialect else "max_tokens"] = limit
        if response_format:
            fields["response_format"] = response_format
        return fields

    async def reply(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, seed: int | None = None
    ) -> PolicyReply:
        body = self._body(messages, tools, seed)
        for tries in range(1, self.max_tries + 1):
            answer = await self.http.post(
                self.url, body=body, headers=self.headers, seconds=REPLY_SECONDS, max_bytes=MAX_REPLY_BYTES
            )
            fault = self._fault(answer)
            if fault is not None and _is_context_full(answer, messages):
                return PolicyReply(finish_reason="length")
            if fault is None:
                reply = self._read(answer)
                if reply is not None:
                    return reply
                fault = PolicyError("The model's answer cannot be read.", transient=True)
            if not fault.transient or tries == self.max_tries:
                raise fault
            await asyncio.sleep(_pause(answer, tries, self.first_pause))
        raise PolicyError("The model was not asked.")  # max_tries below 1

    def _body(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], seed: int | None) -> bytes:
        payload = {**self.fixed, "messages": [self._wire_message(message) for message in messages]}
        if tools:
            payload["tools"] = tools
        if seed is not None:
            payload["seed"] = seed
        return json.dumps(payload, ensure_ascii=True, separators=(",", ":")).encode()

    def _wire_message(self, message: dict[str, Any]) -> dict[str, Any]:
        sent = {key: value for key, value in message.items() if key != "opaque"}
        if sent.get("role") == "developer" and not self.is_new_dialect:
            sent["role"] = "system"
        if sent.get("role") == "assistant" and not sent.get("content") and sent.get("tool_calls"):
            sent["content"] = None
        return sent

    def _read(self, answer: HttpAnswer) -> PolicyReply | None:
        return _read_reply(answer.body)

    def _fault(self, answer: HttpAnswer) -> PolicyError | None:
        if answer.fault:
            transient = answer.fault in {"timeout", "unreachable"}
            return PolicyError(f"The model did not answer: {answer.reason or answer.fault}.", transient=transient)
        if answer.status < 300:
            return None
        words = scrub(_error_words(answer.body), self.hidden)
        transient = answer.status >= 500 or answer.status in TRANSIENT
        return PolicyError(f"The model answered with status {answer.status}{words}.", transient=transient)


def _is_context_full(answer: HttpAnswer, messages: list[dict[str, Any]]) -> bool:
    """Whether the policy has talked itself out of its context: its own doing, a limit and no failure.

    An opening that never fitted is not the policy's doing.
    """
    has_spoken = any(message.get("role") == "assistant" for message in messages)
    return (
        has_spoken
        and answer.status in {400, 413, 422}
        and bool(_CONTEXT_FULL.search(answer.body.decode("utf-8", "replace")))
    )


def _error_words(body: bytes) -> str:
    """The provider's own words, short; nothing where the body is not its error envelope."""
    try:
        error = json.loads(body).get("error")
        message = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        return ""
    return f": {message.strip().rstrip('.')[:500]}" if isinstance(message, str) and message.strip() else ""


def _pause(answer: HttpAnswer, tries: int, first_pause: float) -> float:
    """Seconds to wait: what the server asks for, else doubling with jitter so that a herd does not return as one."""
    try:
        asked = float(answer.headers.get("retry-after", ""))
    except ValueError:
        asked = 0.0
    return min(MAX_PAUSE, max(asked, first_pause * 2 ** (tries - 1) * random.uniform(0.75, 1.25)))  # noqa: S311


def _read_reply(body: bytes) -> PolicyReply | None:
    """The first choice of a chat completion, read tolerantly; None when there is none."""
    try:
        payload = json.loads(body)
        choice = payload["choices"][0]
        message = choice["message"]
        usage = payload.get("usage") or {}
        calls = [_tool_call(call) for call in message.get("tool_calls") or []]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    studio = choice.get("studio") or payload.get("studio") or message.get("studio") or {}
    return PolicyReply(
        text=_text(message.get("content")) or _text(message.get("refusal")),
        reasoning=_text(message.get("reasoning_content") or message.get("reasoning")),
        tool_calls=calls,
        finish_reason=choice.get("finish_reason") or ("tool_calls" if calls else "stop"),
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        logprob_sum=studio.get("logprob_sum"),
        entropy_mean=studio.get("entropy_mean"),
    )


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    return {
        "id": call.get("id") or "",
        "type": "function",
        "function": {"name": str(function.get("name") or ""), "arguments": text},
    }


def _text(content: Any) -> str:
    """Text of a message: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
