"""A request id for every request: taken from the proxy in front when it looks like one, else made; in logs and answers."""

import re
import time
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from rftstudio.core.ids import new_id

HEADER = "X-Request-ID"
_USABLE = re.compile(r"[A-Za-z0-9_-]{8,64}")
_SECRET_PARTS = frozenset({"token", "uidb64", "secret"})
_QUIET_PATHS = ("/healthz", "/static/")

log = structlog.get_logger("studio.request")


class RequestIdMiddleware:
    """Binds `request_id` for all log lines of the request and writes one line when it is done.

    The line holds the path without its query, because a query may hold what a person typed, and without the parts of
    an address that are a right by themselves: an invitation, a lost password, a gateway.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        request_id = given if _USABLE.fullmatch(given) else new_id("req_")
        request.request_id = request_id  # type: ignore[attr-defined]
        started = time.monotonic()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = self.get_response(request)
            response[HEADER] = request_id
            if not request.path.startswith(_QUIET_PATHS) or response.status_code >= 500:
                log.info(
                    "request",
                    method=request.method,
                    path=_path(request),
                    status=response.status_code,
                    milliseconds=round((time.monotonic() - started) * 1000, 1),
                    **_who(request),
                )
        return response


def _path(request: HttpRequest) -> str:
    match = getattr(request, "resolver_match", None)
    path = request.path
    for name, value in (match.kwargs if match else {}).items():
        if name in _SECRET_PARTS:
            path = path.replace(str(value), "[removed]")
    return path


def _who(request: HttpRequest) -> dict[str, str]:
    """Ids of whoever asked, no names."""
    actor = getattr(request, "actor", None)
    user = getattr(request, "user", None)
    found = {}
    if actor is not None:
        found["team"] = actor.team.public_id
    if user is not None and getattr(user, "pk", None):
        found["user"] = str(user.pk)
    return found
