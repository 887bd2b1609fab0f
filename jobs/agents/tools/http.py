"""Calls a tool server over HTTP in the wire shape of Agent RFT. Portable; the client is handed in.

What the outcomes mean (the limits of the hosted service): a 4xx is shown to the model and the rollout goes on; a 5xx,
a time-out or a lost connection is tried again, at most `tool_retries` times and within `tool_seconds` all in all,
and then ends the rollout; more than `max_result_bytes` either way is shown to the model as a 413. A retry repeats
the call byte for byte, so that a server can recognise it by `call_id` and `trace_id` or by the Idempotency-Key header.
"""

import asyncio
import json
import secrets
import time
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from graders.hiding import scrub, secrets_of
from jobs.agents.tools.http_types import HttpAnswer, HttpClient
from jobs.agents.tools.spec import ToolSpec, is_placeholder
from jobs.agents.tools.types import Limits, ToolResult

_FIRST_PAUSE = 0.25  # seconds; doubles with each retry


def shown_url(url: str) -> str:
    """An address without its secrets: names of query parameters stay, their values go."""
    split = urlsplit(url)
    query = "&".join(f"{name}=…" for name, _ in parse_qsl(split.query, keep_blank_values=True))
    host = split.netloc.rpartition("@")[2]
    return f"{split.scheme}://{host}{split.path}" + (f"?{query}" if query else "")


async def call_http(
    spec: ToolSpec,
    arguments: str,
    *,
    call_id: str,
    item: dict[str, Any],
    trace_id: str,
    limits: Limits,
    http: HttpClient,
) -> ToolResult:
    """Make one call. Never raises for what the server or the network does."""
    url = str(spec.config.get("server_url", ""))
    hidden = secrets_of(url, spec.headers)
    if is_placeholder(url):
        return ToolResult(f"The server_url of {spec.name} is a placeholder.", is_error=True, fatal=True)
    body = _request_body(spec.name, arguments, call_id, item, trace_id)
    if len(body) > limits.max_result_bytes:
        return ToolResult(f"Error 413: the call is larger than {limits.max_result_bytes} bytes.", is_error=True)
    headers = {
        **spec.headers,
        "Content-Type": "application/json",
        "Idempotency-Key": f"{trace_id}:{call_id}",
        "X-Trace-Id": trace_id,
    }
    answer, tries = await _post_with_retries(http, url, body, headers, limits)
    result = _read_answer(answer, spec.name, limits)
    result.output = scrub(result.output, hidden)
    if tries > 1:
        result.notes.append(f"answered at try {tries}" if not result.fatal else f"tried {tries} times")
    return result


def _request_body(name: str, arguments: str, call_id: str, item: dict[str, Any], trace_id: str) -> bytes:
    payload = {
        "type": "function_call",
        "id": f"fc_{secrets.token_hex(8)}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "trace_id": trace_id,
        "item": item,
    }
    return json.dumps(payload, ensure_ascii=True, separators=(",", ":")).encode()


async def _post_with_retries(
    http: HttpClient, url: str, body: bytes, headers: dict[str, str], limits: Limits
) -> tuple[HttpAnswer, int]:
    deadline = time.monotonic() + limits.tool_seconds
    tries = 0
    while True:
        tries += 1
        left = max(0.001, deadline - time.monotonic())
        answer = await http.post(url, body=body, headers=headers, seconds=left, max_bytes=limits.max_result_bytes)
        may_heal = answer.status >= 500 or answer.fault in {"timeout", "unreachable"}
        pause = _FIRST_PAUSE * 2 ** (tries - 1)
        if not may_heal or tries > limits.tool_retries or time.monotonic() + pause >= deadline:
            return answer, tries
        await asyncio.sleep(pause)


def _read_answer(answer: HttpAnswer, name: str, limits: Limits) -> ToolResult:
    if answer.fault == "too_large":
        text = f"Error 413: the answer of {name} is larger than {limits.max_result_bytes} bytes."
        return ToolResult(text, is_error=True)
    if answer.fault:
        return ToolResult(
            f"The tool {name} did not answer: {answer.reason or answer.fault}.", is_error=True, fatal=True
        )
    if answer.status >= 500:
        return ToolResult(f"The tool {name} answered with status {answer.status}.", is_error=True, fatal=True)
    text = answer.body.decode("utf-8", errors="replace")
    payload = _json_or_none(text)
    if answer.status >= 300:
        return _refusal(answer.status, text, payload)
    return _success(text, payload)


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _output_of(payload: Any) -> str | None:
    if not isinstance(payload, dict) or "output" not in payload:
        return None
    output = payload["output"]
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _refusal(status: int, text: str, payload: Any) -> ToolResult:
    """A redirect that was not followed or a 4xx: the model reads what the server says."""
    output = _output_of(payload)
    if output is None:
        output = f"Error {status}: {text.strip()[:4000]}".rstrip().removesuffix(":")
    return ToolResult(output, is_error=True)


def _success(text: str, payload: Any) -> ToolResult:
    output = _output_of(payload)
    if output is None:
        return ToolResult(text, notes=["the answer has no output field; it is shown as it came"])
    return ToolResult(output, is_error=output.lstrip().startswith("Error"))
