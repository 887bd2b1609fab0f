"""One exception handler: every refusal leaves in the reference's envelope, with all four keys."""

from typing import Any

import structlog
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404, HttpRequest
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_handler

from rftstudio.core.errors import StudioError

log = structlog.get_logger(__name__)
NO_KEY = "You didn't provide an API key. Send it as the header 'Authorization: Bearer YOUR_KEY'."


def envelope(
    message: str, *, status: int = 400, param: str | None = None, code: str | None = None
) -> dict[str, dict[str, str | None]]:
    kind = "requests" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def exception_handler(exc: Exception, context: dict) -> Response | None:
    """StudioError and DRF's own errors become the envelope; anything else is ours and becomes a 500 in it."""
    if isinstance(exc, StudioError):
        told = envelope(str(exc), status=exc.status, param=exc.where or None, code=exc.code)
        return Response(told, status=exc.status)
    if isinstance(exc, RequestDataTooBig):
        return Response(envelope("The request is too large.", code="request_too_large"), status=413)
    if isinstance(exc, (BadRequest, SuspiciousOperation)):
        return Response(envelope("The request cannot be read.", code="invalid_request_error"), status=400)
    if isinstance(exc, Http404):
        exc = exceptions.NotFound()
    response = drf_handler(exc, context)
    if response is None:
        return _broken(exc, context)
    if isinstance(exc, exceptions.NotAuthenticated):
        response.data = envelope(NO_KEY)
    elif isinstance(exc, exceptions.AuthenticationFailed):
        response.data = envelope(_flat(exc.detail), code="invalid_api_key")
    elif isinstance(exc, exceptions.Throttled):
        response.data = envelope(_flat(exc.detail), status=429, code="rate_limit_exceeded")
    elif isinstance(exc, exceptions.APIException):
        code = exc.get_codes() if isinstance(exc.get_codes(), str) else "invalid_request_error"
        param = next(iter(exc.detail)) if isinstance(exc.detail, dict) else None
        response.data = envelope(_flat(exc.detail), status=response.status_code, param=param, code=code)
    return response


def broken_note(event: str, exc: Exception, context: dict[str, Any]) -> HttpRequest | None:
    """Our own fault, logged whole; returns the request. What it wrote its service's transaction has taken back."""
    request = getattr(context.get("request"), "_request", None)
    got_request_exception.send(sender=None, request=request)
    log.error(event, path=getattr(request, "path", ""), exc_info=exc)
    return request


def _broken(exc: Exception, context: dict) -> Response:
    request = broken_note("v1.broken", exc, context)
    words = f"Studio had an error while processing your request (request id {getattr(request, 'request_id', '')})."
    return Response(envelope(words, status=500, code="studio_failed"), status=500)


def _flat(detail) -> str:
    if isinstance(detail, dict):
        return " ".join(f"{key}: {_flat(value)}" for key, value in detail.items())
    if isinstance(detail, list):
        return " ".join(_flat(value) for value in detail)
    return str(detail)
