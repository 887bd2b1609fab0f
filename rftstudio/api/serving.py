"""Asks a served model: which one a name means, where it answers, and what that costs. Shared by chat and responses."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from jobs.agents.models import ModelEndpoint
from jobs.agents.selectors import model_key, model_subject
from jobs.rollouts.engine.types import PolicyError
from jobs.services import checkpoint_publish
from rftstudio.core.errors import Conflict, NotFound, UpstreamRefused, UpstreamUnavailable, UserError
from rftstudio.core.ids import new_id
from rftstudio.core.outbound import AddressRefused, allowed_hosts, sync_client
from rftstudio.orders import named
from rftstudio.teams.actor import Actor, system_actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.usage.models import Reservation, Unit
from rftstudio.usage.services import Usage, reservation_hold, reservation_settle, usage_record_many

SECONDS = 600.0
MOST_CHOICES = 16
#: What the local server of weights reads.
READ = {
    "model", "messages", "tools", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "n", "stream",
    "stream_options", "stop", "logprobs",
}  # fmt: skip
#: What changes no word of the answer, wherever it is asked.
WITHOUT_EFFECT = {
    "store", "metadata", "user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
}  # fmt: skip


@dataclass(frozen=True)
class Served:
    """A model that answers, and under which name it was asked for."""

    name: str
    endpoint: ModelEndpoint
    url: str

    @property
    def is_local(self) -> bool:
        return self.endpoint.kind == ModelEndpoint.Kind.LOCAL


def served_find(*, actor: Actor, name: Any) -> Served:
    """The tuned model, alias or team's model of that name. Sampling spends, so it asks for the right to evaluate."""
    check_can(actor, Permission.EVALUATION_RUN, team=actor.team)
    if not isinstance(name, str) or not name:
        raise UserError("Missing required parameter: model.", where="model", code="missing_required_parameter")
    endpoint = _endpoint(actor, name)
    if endpoint.kind == ModelEndpoint.Kind.OPENAI:
        base, _, query = (endpoint.base_url or "https://api.openai.com/v1").partition("?")
        return Served(name, endpoint, base.rstrip("/") + "/chat/completions" + (f"?{query}" if query else ""))
    from jobs.rollouts.policies.local import ensure_server

    try:
        url = ensure_server(endpoint.model, run_dir=Path(settings.VAR_DIR) / "run")
    except PolicyError as exc:
        raise UpstreamUnavailable(str(exc), where="model") from exc
    return Served(name, endpoint, f"{url}/chat/completions")


def _endpoint(actor: Actor, name: str) -> ModelEndpoint:
    checkpoint = named.tuned_find(team=actor.team, name=name)
    if checkpoint is not None:
        try:
            # Serving what is kept anyway is no launch; the right to sample was checked.
            return checkpoint.model or checkpoint_publish(actor=system_actor(actor.team), checkpoint=checkpoint)
        except Conflict as exc:
            raise UserError(exc.message, where="model", fix=exc.fix, code="model_not_found") from exc
    base = named.base_find(team=actor.team, name=name)
    if base is None:
        raise NotFound(
            f"The model '{name[:200]}' does not exist or you do not have access to it.", where="model",
            code="model_not_found",
        )  # fmt: skip
    return base.model


@lru_cache(maxsize=4)
def _client(allowed: frozenset[str]) -> Any:
    return sync_client(allowed=allowed, seconds=SECONDS)


def _http(served: Served) -> Any:
    return _client(frozenset({"127.0.0.1"}) if served.is_local else allowed_hosts())


def _headers(served: Served) -> dict[str, str]:
    key = model_key(served.endpoint)
    sent = {"Content-Type": "application/json"}
    return sent | ({"Authorization": f"Bearer {key}", "api-key": key} if key else {})


@contextmanager
def _faults() -> Iterator[None]:
    import httpx2

    try:
        yield
    except AddressRefused as exc:
        raise UpstreamRefused(exc.message, where="model", fix=exc.fix) from exc
    except (httpx2.HTTPError, OSError) as exc:
        raise UpstreamUnavailable(f"The model did not answer ({type(exc).__name__}).", where="model") from exc


def ask(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    """One whole answer, with as many choices as were asked for."""
    if not served.is_local:
        return _post(served, body)
    count = choices_of(body)
    bodies = [body | {"n": None, "stream": None, "seed": _seed(body, place)} for place in range(count)]
    with ThreadPoolExecutor(count) as pool:  # the server generates together what comes together
        answers = list(pool.map(lambda one: _post(served, one), bodies))
    first = answers[0]
    first["choices"] = [{**answer["choices"][0], "index": place} for place, answer in enumerate(answers)]
    for key in ("completion_tokens", "total_tokens"):
        first["usage"][key] = sum(answer["usage"][key] for answer in answers)
    if count > 1:
        first["usage"]["total_tokens"] = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    return first


def choices_of(body: dict[str, Any]) -> int:
    count = body.get("n")
    if count is None:
        return 1
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_CHOICES:
        raise UserError(f"n must be a whole number from 1 to {MOST_CHOICES}.", where="n")
    return count


def _seed(body: dict[str, Any], place: int) -> int | None:
    seed = body.get("seed")
    return seed + place if isinstance(seed, int) and not isinstance(seed, bool) else None


def _post(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    content = json.dumps({key: value for key, value in body.items() if value is not None}).encode()
    with _faults():
        answer = _http(served).post(served.url, content=content, headers=_headers(served), timeout=SECONDS)
    _check(answer.status_code, answer.content)
    try:
        found = answer.json()
        found["choices"][0]["message"]
        found.setdefault("usage", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as exc:
        raise UpstreamUnavailable("The model's answer cannot be read.", where="model") from exc
    return found


def _check(status: int, content: bytes) -> None:
    """The provider's refusal in our envelope: what the request did is said, what concerns the key is not passed on."""
    if status < 300:
        return
    try:
        error = json.loads(content).get("error") or {}
        words, param = str(error.get("message") or ""), error.get("param")
    except (ValueError, AttributeError):
        words, param = "", None
    if status in (401, 403):
        raise UpstreamRefused(
            "The model's provider does not accept its key.", where="model", fix="Enter a new key at the model's page."
        )
    if status >= 500 or status in (408, 409, 425, 429):
        raise UpstreamUnavailable(f"The model answered with status {status}. {words[:300]}".strip(), where="model")
    raise UpstreamRefused(words[:1000] or f"The model answered with status {status}.", where=str(param or "messages"))


def stream_lines(served: Served, body: dict[str, Any]) -> Iterator[bytes]:
    """A provider's own stream, as it comes. The connection is opened before this returns its first line."""
    content = json.dumps(body).encode()
    with (
        _faults(),
        _http(served).stream("POST", served.url, content=content, headers=_headers(served), timeout=SECONDS) as answer,
    ):
        if answer.status_code >= 300:
            _check(answer.status_code, answer.read())
        yield b""
        for line in answer.iter_lines():
            yield f"{line}\n".encode()


@contextmanager
def paid(actor: Actor, served: Served) -> Iterator[list[dict[str, Any]]]:
    """Checks that the team and the key may spend, and books the usage that is put into the list."""
    source = new_id("sample-")
    reservation_hold(
        actor=actor, source=source, kind=Reservation.Kind.EVALUATION, label=f"Sampling of {served.name}", amount=None
    )
    used: list[dict[str, Any]] = []
    try:
        yield used
    finally:
        usage_book(actor, served, source, used)


def usage_book(actor: Actor, served: Served, source: str, used: list[dict[str, Any]]) -> None:
    subject, now = model_subject(served.endpoint), timezone.now()
    counts = (("in", Unit.INPUT_TOKEN, "prompt_tokens"), ("out", Unit.OUTPUT_TOKEN, "completion_tokens"))
    usages = [
        Usage(f"{source}:{way}", unit, subject, total, now, source)
        for way, unit, key in counts
        if (total := sum(int(one.get(key) or 0) for one in used))
    ]
    usage_record_many(team=actor.team, usages=usages)
    reservation_settle(team=actor.team, source=source)


def plain_messages(messages: Any, *, is_local: bool) -> Any:
    """Messages as the local server reads them: role system for developer, one text for several text parts."""
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise UserError("messages must be a list of messages.", where="messages", code="invalid_type")
    return [_plain(one, place) for place, one in enumerate(messages)] if is_local else messages


def _plain(message: dict[str, Any], place: int) -> dict[str, Any]:
    told = {key: value for key, value in message.items() if value is not None or key == "content"}
    if told.get("role") == "developer":
        told["role"] = "system"
    if isinstance(told.get("content"), list):
        parts = told["content"]
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
            raise UserError("Only text can be sent to this model.", where=f"messages[{place}].content")
        told["content"] = "".join(part["text"] for part in parts)
    return told


def ignored(body: dict[str, Any]) -> list[str]:
    """What the local server has no use for; told in the answer, so that nothing is ignored in silence."""
    used = READ - {"logprobs"} if body.get("stream") else READ
    return sorted(key for key, value in body.items() if value is not None and key not in used | WITHOUT_EFFECT)
