"""`describe`: what one method of an address takes, answers and asks for, said once for the schema and for the check."""

from collections.abc import Callable
from functools import cache
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from rftstudio.api.rest.once import HEADER
from rftstudio.api.rest.pages import PageQuery
from rftstudio.api.rest.wire import Wire
from rftstudio.teams.permissions import Permission

_KEY = OpenApiParameter(
    HEADER, OpenApiTypes.STR, OpenApiParameter.HEADER,
    description="1 to 255 characters. The same key again changes nothing more and gets the same answer, for 24 hours.",
)  # fmt: skip
_IF_MATCH = OpenApiParameter(
    "If-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="The ETag as last read: 412 if it has changed."
)


@cache
def page_shape(wire: Any) -> type[serializers.Serializer]:
    """`{"data": [...], "next_cursor": …, "previous_cursor": …}` of these rows."""
    fields: dict[str, Any] = {
        "data": wire(many=True),
        "next_cursor": serializers.CharField(allow_null=True),
        "previous_cursor": serializers.CharField(allow_null=True),
        "__module__": __name__,
    }
    return type(f"{wire.__name__.removesuffix('Wire')}Page", (serializers.Serializer,), fields)


def describe(
    operation: str,
    summary: str,
    *,
    right: Permission = Permission.VIEW,
    takes: type[serializers.Serializer] | None = None,
    answers: type[serializers.Serializer] | None = None,
    status: int = 200,
    query: tuple[type[serializers.Serializer], ...] = (),
    is_paged: bool = False,
    is_list: bool = False,
    is_upload: bool = False,
    is_kept: bool = True,
    bytes_of: tuple[str, ...] = (),
    text: str = "",
    has_condition: bool = False,
) -> Callable:
    """Decorate a method of an Endpoint. `bytes_of`: content types of a download."""

    def decorate(method: Callable) -> Callable:
        parameters: list[Any] = [PageQuery, *query] if is_paged else [*query]
        if method.__name__ == "post" and is_kept:
            parameters.append(_KEY)
        if has_condition:
            parameters.append(_IF_MATCH)
        rows: Any = answers
        shape = page_shape(rows) if answers is not None and (is_paged or is_list) else answers
        if bytes_of:
            responses: Any = {(status, kind): OpenApiTypes.BINARY for kind in bytes_of}
        else:
            responses = {status: shape or OpenApiResponse(description="Done; nothing to say.")}
        extend_schema(
            operation_id=operation,
            summary=summary,
            description=f"{text} Needs the right `{right.value}`.".strip(),
            parameters=parameters,
            request=({"multipart/form-data": takes} if is_upload else takes),
            responses=responses,
            examples=_examples(takes, answers, status, is_paged or is_list),
        )(method)
        method.right = right  # type: ignore[attr-defined]
        return method

    return decorate


def _examples(takes: Any, answers: Any, status: int, is_page: bool) -> list[OpenApiExample]:
    found = []
    if takes is not None and getattr(takes, "example", None) is not None:
        found.append(OpenApiExample("Request", value=takes.example, request_only=True))
    if answers is not None and issubclass(answers, Wire) and answers.example:
        value = answers.example
        if is_page:
            value = {"data": [value], "next_cursor": None, "previous_cursor": None}
        found.append(OpenApiExample("Answer", value=value, response_only=True, status_codes=[str(status)]))
    return found
