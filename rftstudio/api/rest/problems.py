"""Refusals of /api as problem details (RFC 9457). The OpenAI-compatible door has an envelope of its own (api/errors.py)."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from rftstudio.api.errors import broken_note
from rftstudio.core.errors import StudioError

MEDIA_TYPE = "application/problem+json"
NO_KEY = "No API key came with the request."
NO_KEY_FIX = "Send the header 'Authorization: Bearer rfts-…'. An owner of the team makes keys under API keys."


class PreconditionFailed(exceptions.APIException):
    status_code = 412
    default_code = "precondition_failed"
    default_detail = "The thing has changed since you read it. Read it again, then repeat the change."


class KeyReused(exceptions.APIException):
    status_code = 422
    default_code = "idempotency_key_reused"
    default_detail = "This Idempotency-Key was used for another request. Use a new key for a new request."


def problem(
    status: int,
    detail: str,
    *,
    code: str,
    where: str = "",
    fix: str = "",
    errors: list[dict[str, str]] | None = None,
    request_id: str = "",
) -> dict[str, Any]:
    """The body: standard members first, then ours."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "where": where or None,
        "fix": fix or None,
        "errors": errors or [],
        "request_id": request_id,
    }


def problem_handler(exc: Exception, context: dict[str, Any]) -> Response:
    """StudioError and DRF's own errors become problems; anything else is ours and becomes a 500."""
    request_id = getattr(getattr(context.get("request"), "_request", None), "request_id", "")
    headers: dict[str, str] = {}
    if isinstance(exc, StudioError):
        body = problem(
            exc.status, exc.message, code=exc.code, where=exc.where, fix=exc.fix, request_id=request_id,
            errors=getattr(exc, "errors", None),
        )  # fmt: skip
    elif isinstance(exc, Http404):
        body = problem(404, "There is nothing at this address.", code="not_found", request_id=request_id)
    elif isinstance(exc, PermissionDenied):
        body = problem(403, "You may not do this.", code="permission_denied", request_id=request_id)
    elif isinstance(exc, RequestDataTooBig):
        body = problem(413, "The body is too large.", code="too_large", request_id=request_id)
    elif isinstance(exc, (BadRequest, SuspiciousOperation)):
        body = problem(400, "The request cannot be read.", code="invalid", request_id=request_id)
    elif isinstance(exc, exceptions.NotAuthenticated):
        body = problem(exc.status_code, NO_KEY, code="no_api_key", fix=NO_KEY_FIX, request_id=request_id)
        headers["WWW-Authenticate"] = getattr(exc, "auth_header", "Bearer")
    elif isinstance(exc, exceptions.APIException):
        body = _of_framework(exc, request_id)
        if header := getattr(exc, "auth_header", None):
            headers["WWW-Authenticate"] = header
        if wait := getattr(exc, "wait", None):
            headers["Retry-After"] = str(int(wait))
    else:
        return _broken(exc, context, request_id)
    return Response(body, status=body["status"], headers=headers, content_type=MEDIA_TYPE)


def _broken(exc: Exception, context: dict[str, Any], request_id: str) -> Response:
    broken_note("api.broken", exc, context)
    body = problem(
        500, "Something broke on our side; the log holds the whole of it.", code="studio_failed",
        fix="Try again; if it stays, give the request_id to whoever runs this Studio.", request_id=request_id,
    )  # fmt: skip
    return Response(body, status=500, content_type=MEDIA_TYPE)


def _of_framework(exc: exceptions.APIException, request_id: str) -> dict[str, Any]:
    if isinstance(exc, exceptions.ValidationError):
        errors = list(_flat(exc.detail))
        said = errors[0]["message"] if len(errors) == 1 else f"{len(errors)} fields cannot be taken as they are."
        return problem(
            400, said, code="invalid", where=errors[0]["where"] if len(errors) == 1 else "", errors=errors,
            request_id=request_id,
        )  # fmt: skip
    code = exc.get_codes() if isinstance(exc.get_codes(), str) else exc.default_code
    return problem(exc.status_code, str(exc.detail), code=str(code), request_id=request_id)


def _flat(detail: Any, path: str = "") -> Iterator[dict[str, str]]:
    """Every fault with the place it is at: `shares.train`, `tools[0].name`."""
    if isinstance(detail, dict):
        for key, value in detail.items():
            inner = path if key == "non_field_errors" else f"{path}.{key}".lstrip(".")
            yield from _flat(value, inner)
    elif isinstance(detail, list):
        for n, value in enumerate(detail):
            yield from _flat(value, f"{path}[{n}]" if isinstance(value, dict) and value else path)
    else:
        yield {"where": path, "message": str(detail)}
