"""`GET /healthz`: whether this web process can do its work, for load balancers and the supervisor."""

import structlog
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from rftstudio.celery import app

log = structlog.get_logger(__name__)


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 when database and broker answer, else 503. Says which, never why: the reason is in the log."""
    parts = {"database": _state("database", _ask_database), "broker": _state("broker", _ask_broker)}
    is_well = all(state == "ok" for state in parts.values())
    return JsonResponse({"status": "ok" if is_well else "unavailable", **parts}, status=200 if is_well else 503)


def _state(name: str, ask) -> str:
    try:
        ask()
    except Exception as exc:  # whatever a driver raises, the part is not there
        log.warning("health.part_unavailable", part=name, reason=f"{type(exc).__name__}: {exc}")
        return "unavailable"
    return "ok"


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()


def _ask_broker() -> None:
    with app.connection_for_write(connect_timeout=2) as link:
        link.ensure_connection(max_retries=1, interval_start=0, timeout=3)
