"""endpoint: a team's own server grades. POST {sample, item, trace_id}, answer {"score": number}.

Any failure is asked again up to three times when it may heal (408, 429, 5xx, no connection), then the sample is
ungraded. A redirect is not followed, and header values never reach a message.
"""

import html
import json
import math
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from graders.clients import GraderClients, HttpAnswer, Unreachable
from graders.failures import Ungraded
from graders.hiding import scrub, secrets_of
from graders.kinds.base import Config, Field, Kind, Scorer, Workshop
from graders.types import Problem, Sample

ATTEMPTS = 4
SECONDS = 600.0
MAX_BYTES = 1 << 20
SAMPLE_KEYS = ("choices", "output_text", "output_json", "output_tools", "output_reasoning_summary")


def compile_endpoint(config: Config, workshop: Workshop) -> Scorer:
    clients, url = workshop.clients, config["url"]
    headers = {"Content-Type": "application/json", **(config.get("headers") or {})}
    pace = Pace(config.get("rate_limit"), clients)

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float:
        whole = sample.as_dict()
        payload = {"sample": {key: whole[key] for key in SAMPLE_KEYS}, "item": item, "trace_id": trace_id}
        body = json.dumps(payload, default=str).encode()
        if len(body) > MAX_BYTES:
            raise Ungraded("other_error", f"The request would be {len(body):,} bytes; 1 MB is the limit.")
        return _ask(clients, url, headers, body, pace)

    return score


class Pace:
    """At most so many requests a second, over all threads of this process."""

    def __init__(self, per_second: float | None, clients: GraderClients) -> None:
        self.gap = 1.0 / per_second if per_second else 0.0
        self.next_at = 0.0
        self.lock = threading.Lock()
        self.sleep = clients.sleep or time.sleep

    def wait(self) -> None:
        if not self.gap:
            return
        with self.lock:
            now = time.monotonic()
            at = max(now, self.next_at)
            self.next_at = at + self.gap
        if at > now:
            self.sleep(at - now)


def _ask(clients: GraderClients, url: str, headers: dict[str, str], body: bytes, pace: Pace) -> float:
    if clients.http is None:
        raise Ungraded("other_error", "Not graded: there is no network here for endpoint graders.")
    reason = ""
    hidden = secrets_of(url, headers)
    for attempt in range(ATTEMPTS):
        if attempt:
            (clients.sleep or time.sleep)(min(8.0, 0.5 * 2**attempt))
        pace.wait()
        try:
            answer = clients.http.post(url, headers=headers, body=body, seconds=SECONDS)
        except Unreachable as exc:
            reason = f"no answer: {exc}"
            if not exc.may_heal:
                break
            continue
        if answer.status == 200:
            return read_score(answer, hidden)
        reason = f"it answered {answer.status}"
        if 300 <= answer.status < 400:
            reason += ", a redirect, which is not followed"
            break
        if answer.status not in (408, 429) and answer.status < 500:
            break
    raise Ungraded("other_error", f"The grader at {urlsplit(url).hostname} did not grade: {reason.rstrip('.')}.")


def read_score(answer: HttpAnswer, hidden: list[str]) -> float:
    """The finite number under `score`; of a repeated key the last one counts, as in most JSON readers."""
    shown = html.escape(scrub(answer.body[:1000].decode("utf-8", "replace"), hidden)[:200], quote=False)
    if len(answer.body) > MAX_BYTES:
        raise Ungraded("other_error", "The grader's answer is longer than 1 MB.")
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise Ungraded("other_error", f"The grader's answer is not JSON: {shown}") from None
    score = value.get("score") if isinstance(value, dict) else None
    if not isinstance(score, int | float) or isinstance(score, bool) or not _is_finite(score):
        raise Ungraded("other_error", f'The grader\'s answer has no number under "score": {shown}')
    return float(score)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _problems(config: Config, path: str) -> Iterator[Problem]:
    url = config.get("url")
    if not isinstance(url, str) or not url:
        return
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_web = False
    if not is_web:
        yield Problem(
            f"{path}url", "url_invalid", "This is no web address.", "For instance https://grader.example.com/score"
        )
    rate = config.get("rate_limit")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and rate <= 0:
        yield Problem(f"{path}rate_limit", "too_small", "The rate must be above 0.", "Leave it empty for no limit.")
    for name, value in (config.get("headers") or {}).items() if isinstance(config.get("headers"), dict) else ():
        if isinstance(value, str) and value and set(value) == {"*"}:
            yield Problem(
                f"{path}headers.{name}", "header_redacted", f"The value of {name} is redacted.", "Enter the real value."
            )


KIND = Kind(
    type="endpoint",
    title="Own server",
    about="Your own server gets the sample and the item and answers with a score.",
    fields=(
        Field("url", "text", "Address", "Gets a POST with sample, item and trace_id; answers {\"score\": number}.", True),
        Field("headers", "headers", "Headers", "Sent with each request."),
        Field("rate_limit", "number", "Requests per second", "At most so many; empty: no limit."),
    ),
    compile=compile_endpoint,
    sentence=lambda c: f"{urlsplit(str(c.get('url', ''))).hostname or 'your server'} grades",
    problems=_problems,
    icon="globe",
    is_costly=True,
)  # fmt: skip
