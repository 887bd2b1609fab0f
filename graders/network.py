"""The network that a team's graders get: Studio's guarded HTTP client and the team's own models."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from graders.clients import GraderClients, HttpAnswer, JudgeEndpoint, Unreachable
from graders.kinds.endpoint import MAX_BYTES
from rftstudio.core.outbound import AddressRefused, allowed_hosts, sync_client
from rftstudio.teams.models import Team


class GuardedHttp:
    """POST through the guarded client, as graders want it."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed

    def post(self, url: str, *, headers: dict[str, str], body: bytes, seconds: float) -> HttpAnswer:
        import httpx2

        try:
            with _client(self.allowed).stream("POST", url, headers=headers, content=body, timeout=seconds) as answer:
                return HttpAnswer(answer.status_code, _read(answer, time.monotonic() + seconds), dict(answer.headers))
        except AddressRefused as exc:
            raise Unreachable(exc.message, may_heal=False) from exc
        except (httpx2.TimeoutException, TimeoutError) as exc:
            raise Unreachable(f"no answer within {seconds:g} s") from exc
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as exc:
            if isinstance(exc.__cause__, AddressRefused):
                raise Unreachable(exc.__cause__.message, may_heal=False) from exc
            raise Unreachable(f"the connection failed ({type(exc).__name__})") from exc


@lru_cache(maxsize=8)
def _client(allowed: frozenset[str]) -> Any:
    """One connection pool for each set of opened hosts."""
    return sync_client(allowed=allowed)


def _read(answer: Any, deadline: float) -> bytes:
    """The body up to the limit. A server that trickles is given up too: the client's own limit is for one read."""
    body = bytearray()
    for chunk in answer.iter_bytes():
        body += chunk
        if time.monotonic() > deadline:
            raise TimeoutError
        if len(body) > MAX_BYTES:
            break
    return bytes(body)


def judge_source() -> Callable[[Team, str], JudgeEndpoint | None]:
    """The function that finds a team's model by name."""
    return import_string(settings.STUDIO_JUDGE_SOURCE)


def judge_names(team: Team) -> list[str]:
    """Names of the models that the team has."""
    return import_string(settings.STUDIO_JUDGE_NAMES)(team)


def clients_for(team: Team) -> GraderClients:
    """What the graders of one team are handed."""
    source = judge_source()

    def judge(name: str) -> JudgeEndpoint | None:
        return source(team, name)

    return GraderClients(owner=team.public_id, http=GuardedHttp(allowed_hosts()), judge=judge)
