"""One exception handler: every refusal leaves in the reference's envelope, with all four keys."""

from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_handler

from rftstudio.core.errors import StudioError

NO_KEY = "You didn't provide an API key. Send it as the header 'Authorization: Bearer YOUR_KEY'."


def envelope(
    message: str, *, kind: str = "invalid_request_error", param: str | None = None, code: str | None = None
) -> dict:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def exception_handler(exc: Exception, context: dict) -> Response | None:
    """StudioError and DRF's own errors become the envelope; anything else is ours and stays a 500."""
    if isinstance(exc, StudioError):
        return Response(envelope(str(exc), param=exc.where or None, code=exc.code), status=exc.status)
    if isinstance(exc, Http404):
        exc = exceptions.NotFound()
    response = drf_handler(exc, context)
    if response is not None and isinstance(exc, exceptions.NotAuthenticated):
        response.data = envelope(NO_KEY)
    elif response is not None and isinstance(exc, exceptions.AuthenticationFailed):
        response.data = envelope(_flat(exc.detail), code="invalid_api_key")
    elif response is not None and isinstance(exc, exceptions.APIException):
        code = exc.get_codes() if isinstance(exc.get_codes(), str) else "invalid_request_error"
        param = next(iter(exc.detail)) if isinstance(exc.detail, dict) else None
        response.data = envelope(_flat(exc.detail), param=param, code=code)
    return response


def _flat(detail) -> str:
    if isinstance(detail, dict):
        return " ".join(f"{key}: {_flat(value)}" for key, value in detail.items())
    if isinstance(detail, list):
        return " ".join(_flat(value) for value in detail)
    return str(detail)
