"""What the handlers of `/v1` share: reading a body and a query strictly, pages by cursor, and what their description says.

A door reads plain JSON, calls one service or selector, and answers plain JSON. What it does not know it refuses by name.
"""

import functools
from collections.abc import Callable
from typing import Any

from django.db.models import Model, Q, QuerySet
from drf_spectacular.utils import OpenApiParameter, OpenApiTypes, extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view, parser_classes
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser, JSONParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from rftstudio.core.errors import Conflict, NotFound, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can

MAX_BODY = 32_000_000
TAG = "OpenAI-compatible"


class ErrorWire(serializers.Serializer):
    """The reference's envelope holds these under `error`, always all four."""

    message = serializers.CharField()
    type = serializers.CharField()
    param = serializers.CharField(allow_null=True)
    code = serializers.CharField(allow_null=True)


class ErrorAnswer(serializers.Serializer):
    error = ErrorWire()


class BodyTooLarge(UserError):
    """More than a request may have."""

    status = 413
    code = "request_too_large"


class StrictJson(JSONParser):
    """JSON as databases and models can keep it: no NaN, no NUL, no half of a character pair, not nested without end."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        length = int((parser_context or {})["request"].META.get("CONTENT_LENGTH") or 0)
        if length > MAX_BODY:
            raise BodyTooLarge(f"The request has {length:,} bytes; {MAX_BODY:,} may be sent.")
        try:
            value = super().parse(stream, media_type, parser_context)
            check_text(value)
        except RecursionError as exc:
            raise UserError("The request is nested too deeply.") from exc
        return value


class AnyAccept(DefaultContentNegotiation):
    """Whatever a client says it accepts: the reference's own asks for `application/binary` when it wants a file."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


def check_text(value: Any) -> None:
    """Refuse text that cannot be stored."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise UserError("The request holds half of a character pair (a lone surrogate).") from exc
        if "\x00" in value:
            raise UserError("The request holds the NUL character.")
    elif isinstance(value, dict):
        for key, one in value.items():
            check_text(key)
            check_text(one)
    elif isinstance(value, list):
        for one in value:
            check_text(one)


def door(
    method: str,
    operation_id: str,
    *,
    summary: str,
    body: Any = None,
    answer: Any = None,
    parameters: list[OpenApiParameter] | None = None,
    parsers: tuple[type[BaseParser], ...] = (StrictJson,),
    statuses: tuple[int, ...] = (400, 401, 403, 404, 405, 409, 413, 415),
) -> Callable:
    """One handler of one address: its method, its parser and its part of the published description."""
    found = answer if isinstance(answer, dict) else {200: answer or OpenApiTypes.OBJECT}
    responses = {**found, **dict.fromkeys(statuses, ErrorAnswer)}

    def decorate(handler: Callable[..., Any]) -> Callable[..., Any]:
        told = {
            "operation_id": operation_id, "summary": summary, "description": handler.__doc__, "request": body,
            "responses": responses, "parameters": parameters or [], "tags": [TAG],
        }  # fmt: skip
        view = extend_schema(**told)(_view([method], parsers, _plain(handler)))
        view.door = (method, _plain(handler), parsers, told)
        return view

    return decorate


def by_method(*views: Callable[..., Any]) -> Callable[..., Any]:
    """Doors of one address as one view."""
    doors = [view.door for view in views]  # type: ignore[attr-defined]
    handlers = {method: handler for method, handler, _, _ in doors}
    parsers = list(dict.fromkeys(parser for _, _, several, _ in doors for parser in several))
    if MultiPartParser in parsers:
        parsers = [MultiPartParser]

    def dispatch(request: Request, *args: Any, **kwargs: Any) -> Any:
        return handlers[request.method](request, *args, **kwargs)

    view = _view(list(handlers), parsers, dispatch)
    for method, _, _, told in doors:
        view = extend_schema(methods=[method], **told)(view)
    return view


def _view(methods: list[str], parsers: Any, handler: Callable[..., Any]) -> Any:
    view = api_view(methods)(parser_classes(list(parsers))(handler))
    view.cls.content_negotiation_class = AnyAccept
    return view


def _plain(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    def call(request: Request, *args: Any, **kwargs: Any) -> Any:
        answer = handler(request, *args, **kwargs)
        return Response(answer) if isinstance(answer, (dict, list)) else answer

    return call


def actor_of(request: Request, right: Permission = Permission.VIEW) -> Actor:
    """Whoever holds the key, checked for this right."""
    check_can(request.auth, right, team=request.auth.team)
    return request.auth


def body_of(request: Request, *, known: set[str]) -> dict[str, Any]:
    """The body as an object whose keys are all known; each unknown one is named."""
    body = request.data
    if not isinstance(body, dict):
        raise UserError("The body must be a JSON object.", code="invalid_type")
    check_known(body, known)
    return body


def check_known(values: dict[str, Any], known: set[str], *, path: str = "") -> None:
    unknown = [key for key in values if key not in known]
    if unknown:
        words = ", ".join(f"{path}{key}" for key in unknown)
        raise UserError(
            f"Unknown parameter: {words}.",
            where=f"{path}{unknown[0]}",
            fix=f"Known here: {', '.join(sorted(known))}.",
            code="unknown_parameter",
        )


class WrongState(UserError):
    """The reference answers 400 where other doors of ours say 409: its client would ask a 409 again."""

    code = "invalid_state"


def in_state(call: Callable[..., Any], **kwargs: Any) -> Any:
    """Call a service; a row in the wrong state is a 400 here."""
    try:
        return call(**kwargs)
    except Conflict as exc:
        raise WrongState(exc.message, where=exc.where, fix=exc.fix) from exc


# -- pages ------------------------------------------------------------------------------------------------------------

AFTER = OpenApiParameter("after", str, description="The last id of the page before.")
LIMIT = OpenApiParameter("limit", int, description="Rows on a page.")


def limit_of(request: Request, default: int, most: int = 100) -> int:
    text = request.query_params.get("limit")
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
        raise UserError(f"limit must be a whole number from 1 to {most}.", where="limit")
    return int(text)


def after_of(request: Request, rows: QuerySet, name: str = "public_id") -> Any:
    """The row that the cursor names, or None at the start. A cursor of another list is refused."""
    wanted = request.query_params.get("after")
    if not wanted:
        return None
    found = rows.filter(**{name: wanted[:64]}).first() if "\x00" not in wanted else None
    if found is None:
        raise UserError(
            f"There is no row {wanted[:80]!r} to go on after.", where="after", fix="Pass the last id you got."
        )
    return found


def older_than(row: Model | None, *fields: str) -> Q:
    """Keyset: rows behind this one in descending order of the fields."""
    if row is None:
        return Q()
    found, equal = Q(), Q()
    for name in fields:
        found |= equal & Q(**{f"{name}__lt": getattr(row, name)})
        equal &= Q(**{name: getattr(row, name)})
    return found


def newer_than(row: Model | None, *fields: str) -> Q:
    """Keyset for ascending order."""
    if row is None:
        return Q()
    found, equal = Q(), Q()
    for name in fields:
        found |= equal & Q(**{f"{name}__gt": getattr(row, name)})
        equal &= Q(**{name: getattr(row, name)})
    return found


def page_of(rows: list[dict[str, Any]], limit: int, *, with_ends: bool = False) -> dict[str, Any]:
    """The list envelope; `rows` has one more than fits when there are more."""
    shown = rows[:limit]
    page = {"object": "list", "data": shown, "has_more": len(rows) > limit}
    if with_ends:
        page |= {"first_id": shown[0]["id"] if shown else None, "last_id": shown[-1]["id"] if shown else None}
    return page


@extend_schema(exclude=True)
@api_view(["GET", "POST", "PUT", "PATCH", "DELETE"])
def unknown(request: Request, rest: str) -> Response:
    """What stands at no address of this door, said in its envelope."""
    raise NotFound(
        f"Unknown request URL: {request.method} /v1/{rest[:200]}.", fix="docs/migrate.md lists what is here.",
        code="unknown_url",
    )  # fmt: skip
