"""How many requests a key may make in a minute, counted over all web processes, and the headers that say so."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from rftstudio.api.rest.models import RequestCount

_TABLE = RequestCount._meta.db_table
_SQL = (
    f"INSERT INTO {_TABLE} (who, minute, count) VALUES (%s, %s, 1) "  # noqa: S608 a table's own name
    f"ON CONFLICT (who, minute) DO UPDATE SET count = {_TABLE}.count + 1 RETURNING count"
)


@dataclass(frozen=True)
class Rate:
    """What is left of this minute."""

    limit: int
    left: int
    seconds: int


def who_asks(request: Request) -> str:
    """A key, or a person: the two have limits of their own."""
    actor = request.auth
    return f"key:{actor.api_key.pk}" if actor.api_key else f"user:{actor.user.pk}"


class KeyThrottle(BaseThrottle):
    """`STUDIO_API_REQUESTS_PER_MINUTE` for each key; 0 lifts the limit."""

    def allow_request(self, request: Request, view: object) -> bool:
        limit = settings.STUDIO_API_REQUESTS_PER_MINUTE
        if not limit or request.auth is None:
            return True
        now = time.time()
        with connection.cursor() as cursor:
            cursor.execute(_SQL, [who_asks(request), int(now // 60)])
            (count,) = cursor.fetchone()
        self.rate = Rate(limit, max(0, limit - count), 60 - int(now % 60))
        request._request.studio_rate = self.rate
        return count <= limit

    def wait(self) -> float:
        return self.rate.seconds


class RateHeaders:
    """Middleware: RateLimit headers on whatever the throttle counted, /v1 included."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        rate: Rate | None = getattr(request, "studio_rate", None)
        if rate is not None:
            response["RateLimit-Limit"] = str(rate.limit)
            response["RateLimit-Remaining"] = str(rate.left)
            response["RateLimit-Reset"] = str(rate.seconds)
        return response
