"""Asking a judge model. Portable: the network comes with GraderClients.

The judge is asked for structured output; `graders.replies` reads what it answers.
"""

import json
import math
import time
from dataclasses import dataclass, field
from typing import Any

from graders.clients import GraderClients, JudgeEndpoint, Unreachable
from graders.failures import Ungraded
from graders.hiding import scrub, secrets_of

ATTEMPTS = 4  # the first and three more
PARSE_ATTEMPTS = 2
SECONDS = 120.0
KEEP_SECONDS = 60.0  # how long a judge's endpoint is used without being looked up again
MAX_REPLY = 1 << 20

SCORE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"description": {"type": "string"}, "conclusion": {"type": "string"}},
                "required": ["description", "conclusion"],
                "additionalProperties": False,
            },
        },
        "result": {"type": "number"},
    },
    "required": ["steps", "result"],
    "additionalProperties": False,
}


@dataclass
class JudgeReply:
    """What the judge wrote, as it came, and what it cost. It is read as it came; what is kept of it is cleaned first."""

    text: str
    model: str
    usage: dict[str, int] = field(default_factory=dict)
    is_cut: bool = False  # the judge reached its token limit
    hidden: list[str] = field(default_factory=list)  # secrets of the endpoint, which it may repeat

    def clean(self, text: str) -> str:
        return scrub(text, self.hidden)


class Judge:
    """One judge model of a team, asked through its OpenAI-compatible endpoint."""

    def __init__(self, model: str, clients: GraderClients) -> None:
        self.model = model
        self.clients = clients
        self._takes_schema = True
        self._found: tuple[float, JudgeEndpoint | None] = (-math.inf, None)

    def prepare(self) -> None:
        """Look the endpoint up now, so that a thread that asks within the next minute need not."""
        if self.clients.judge and time.monotonic() - self._found[0] > KEEP_SECONDS / 2:
            self._found = (time.monotonic(), self.clients.judge(self.model))

    def ask(self, messages: list[dict[str, Any]], sampling: dict[str, Any], schema: dict[str, Any]) -> JudgeReply:
        """One answer. Faults that may heal are asked again; the rest is Ungraded with the server's words."""
        endpoint = self._endpoint()
        hidden = secrets_of(endpoint.base_url, endpoint.headers)
        body = {"model": endpoint.model, "messages": messages, **wire_sampling(sampling)}
        reason = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._wait(attempt)
            request = {**body, "response_format": _format(schema)} if self._takes_schema else body
            try:
                status, answer = self._post(endpoint, request)
            except Unreachable as exc:
                reason = f"no answer from the judge {self.model}: {exc}"
                if not exc.may_heal:
                    break
                continue
            if status == 200:
                return self._reply(answer, hidden)
            reason = f"the judge {self.model} answered {status}: {scrub(_words_of(answer), hidden)[:200]}"
            if status == 400 and self._takes_schema and "response_format" in json.dumps(answer):
                self._takes_schema = False  # an endpoint without structured output: its text is read tolerantly
                continue
            if status not in (408, 409, 429) and status < 500:
                break
        raise Ungraded("model_grader_server_error", f"Not graded: {reason}.", model_grader_server_error_details=reason)

    def _endpoint(self) -> JudgeEndpoint:
        looked_up, endpoint = self._found
        if time.monotonic() - looked_up > KEEP_SECONDS:
            endpoint = self.clients.judge(self.model) if self.clients.judge else None
        if endpoint is None or not (endpoint.http or self.clients.http):
            reason = f"the team has no model named {self.model}"
            raise Ungraded(
                "model_grader_server_error",
                f"Not graded: {reason}. Add it under Models, or change the grader's model.",
                model_grader_server_error_details=reason,
            )
        return endpoint

    def _post(self, endpoint: JudgeEndpoint, request: dict[str, Any]) -> tuple[int, Any]:
        data = json.dumps(request).encode()
        url = endpoint.base_url.rstrip("/") + "/chat/completions"
        headers = {"Content-Type": "application/json", **endpoint.headers}
        http = endpoint.http or self.clients.http
        answer = http.post(url, headers=headers, body=data, seconds=SECONDS)
        try:
            return answer.status, json.loads(answer.body[:MAX_REPLY])
        except (ValueError, RecursionError):
            return answer.status if answer.status != 200 else 502, answer.body[:300].decode("utf-8", "replace")

    def _reply(self, answer: Any, hidden: list[str]) -> JudgeReply:
        try:
            choice = answer["choices"][0]
            message, finish = choice["message"], choice.get("finish_reason")
            refusal, text = message.get("refusal"), _text_of(message.get("content"))
        except (KeyError, IndexError, TypeError, AttributeError):
            reason = "the judge's answer has no choices"
            raise Ungraded(
                "model_grader_server_error", f"Not graded: {reason}.", model_grader_server_error_details=reason
            ) from None
        if refusal or finish == "content_filter":
            said = f": “{scrub(str(refusal), hidden)[:200]}”" if refusal else ", by its content filter"
            raise Ungraded("model_grader_refusal_error", f"The judge refused{said}.")
        return JudgeReply(text, self.model, _usage(answer.get("usage")), finish == "length", hidden)

    def _wait(self, attempt: int) -> None:
        (self.clients.sleep or time.sleep)(min(8.0, 0.5 * 2**attempt))


def _text_of(content: Any) -> str:
    """A message's text; some servers answer with a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def _format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "grade", "strict": True, "schema": schema}}


def wire_sampling(sampling: dict[str, Any]) -> dict[str, Any]:
    """Grader spelling to request spelling: `max_completions_tokens` is `max_completion_tokens` on the wire."""
    wire = {key: value for key, value in sampling.items() if value is not None}
    for key in ("max_completions_tokens", "max_tokens"):
        if key in wire:
            wire["max_completion_tokens"] = wire.pop(key)
    return wire


def _usage(usage: Any) -> dict[str, int]:
    if not isinstance(usage, dict):
        return {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("cached_tokens")
    counts = {key: usage.get(key) for key in ("prompt_tokens", "completion_tokens", "total_tokens")}
    counts["cached_tokens"] = cached or 0
    return {key: int(value) for key, value in counts.items() if isinstance(value, int | float)}


def _words_of(answer: Any) -> str:
    if isinstance(answer, dict):
        error = answer.get("error", answer)
        answer = error.get("message", error) if isinstance(error, dict) else error
    return str(answer)[:1000]


def add_usage(total: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return {key: total.get(key, 0) + more.get(key, 0) for key in total.keys() | more.keys()}
