"""Asking a judge model and reading its mark. Portable: the network comes with GraderClients.

The judge is asked for structured output. What it answers is read tolerantly in form and strictly in substance: the
documented JSON, a bare number, one line `Score: 4` or one `[[4]]`. Never the first number met, never clamped.
"""

import json
import math
import re
import time
from dataclasses import dataclass, field
from typing import Any

from graders.clients import GraderClients, JudgeEndpoint, Unreachable
from graders.failures import Ungraded

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

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_BARE = re.compile(_NUMBER, re.ASCII)
_LINE = re.compile(
    rf"^[ \t*#]*(?:score|result|rating|grade)[ \t*]*[:=][ \t*]*({_NUMBER})[ \t*.]*$", re.ASCII | re.I | re.M
)
_BRACKETS = re.compile(rf"\[\[\s*({_NUMBER})\s*\]\]", re.ASCII)
_FENCE = re.compile(r"^```(?:json)?\s*\n(.*?)\n?```\s*$", re.S)
_ERROR = re.compile(r"^\s*\[?\s*error\b", re.I)


@dataclass
class JudgeReply:
    """What the judge wrote, and what it cost."""

    text: str
    model: str
    usage: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """A judge's number and its reason in words."""

    value: float
    reason: str = ""


def read_mark(text: str, low: float, high: float) -> Mark:
    """The mark in a judge's reply; Ungraded when there is none, or when it lies outside the range."""
    if _ERROR.match(text):
        raise Ungraded(
            "model_grader_server_error",
            f"The judge answered with an error: “{text.strip()[:200]}”.",
            model_grader_server_error_details=text.strip()[:500],
        )
    mark = _structured(text) or _written(text)
    if mark is None:
        raise Ungraded(
            "model_grader_parse_error", f"No mark can be read from the judge's reply: “{text.strip()[:200]}”."
        )
    if not low <= mark.value <= high:
        raise Ungraded(
            "model_grader_parse_error",
            f"The judge's mark {mark.value:g} is out of range {low:g} to {high:g}; it is not cut to fit.",
        )
    return mark


def _structured(text: str) -> Mark | None:
    value = read_json(text)
    if not isinstance(value, dict):
        return None
    result = value.get("result")
    if not isinstance(result, int | float) or isinstance(result, bool) or not math.isfinite(result):
        return None
    steps = value.get("steps")
    conclusions = [
        str(step.get("conclusion") or step.get("description") or "")
        for step in (steps if isinstance(steps, list) else [])
        if isinstance(step, dict)
    ]
    return Mark(float(result), " ".join(filter(None, conclusions))[:600])


def read_json(text: str) -> Any:
    """Strict JSON, also inside a code fence; None when it is none. NaN and Infinity are no JSON."""
    stripped = text.strip()
    if fenced := _FENCE.match(stripped):
        stripped = fenced.group(1).strip()

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        return json.loads(stripped, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def _written(text: str) -> Mark | None:
    stripped = text.strip()
    if stripped.startswith(("{", "[")) and not stripped.startswith("[["):
        return None
    if _BARE.fullmatch(stripped):
        return _finite(stripped, "")
    lines = _LINE.findall(stripped)
    if len(lines) == 1:
        return _finite(lines[0], _LINE.sub("", stripped).strip()[:600])
    brackets = _BRACKETS.findall(stripped)
    if len(brackets) == 1 and not lines:
        return _finite(brackets[0], _BRACKETS.sub("", stripped).strip()[:600])
    return None


def _finite(number: str, reason: str) -> Mark | None:
    value = float(number)
    return Mark(value, reason) if math.isfinite(value) else None


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
                return self._reply(answer)
            reason = f"the judge {self.model} answered {status}: {_words_of(answer)}"
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

    def _reply(self, answer: Any) -> JudgeReply:
        try:
            message = answer["choices"][0]["message"]
            refusal, text = message.get("refusal"), message.get("content") or ""
        except (KeyError, IndexError, TypeError, AttributeError):
            reason = "the judge's answer has no choices"
            raise Ungraded(
                "model_grader_server_error", f"Not graded: {reason}.", model_grader_server_error_details=reason
            ) from None
        if refusal:
            raise Ungraded("model_grader_refusal_error", f"The judge refused: “{str(refusal)[:200]}”.")
        return JudgeReply(str(text), self.model, _usage(answer.get("usage")))

    def _wait(self, attempt: int) -> None:
        (self.clients.sleep or time.sleep)(min(8.0, 0.5 * 2**attempt))


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
    return str(answer)[:200]


def add_usage(total: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return {key: total.get(key, 0) + more.get(key, 0) for key in total.keys() | more.keys()}
