"""`/api/schema/`: the OpenAPI description, made once in each process. `/api/docs/`: a page to read and to try it."""

import json
from functools import cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import etag, require_safe
from drf_spectacular.generators import SchemaGenerator

from rftstudio.teams.selectors import team_list


@cache
def schema_text() -> str:
    """The description as JSON. It depends on the code alone, so it is made once."""
    return json.dumps(SchemaGenerator().get_schema(request=None, public=True), ensure_ascii=False)


@cache
def _tag() -> str:
    import hashlib

    return f'"{hashlib.sha256(schema_text().encode()).hexdigest()[:32]}"'


@require_safe
@etag(lambda request: _tag())
def schema(request: HttpRequest) -> HttpResponse:
    return HttpResponse(schema_text(), content_type="application/json")


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Swagger UI, from this host. Who is logged in may try it as themselves; a key works for everyone."""
    teams = team_list(user=request.user) if request.user.is_authenticated else []
    return render(request, "api/docs.html", {"choices": teams})
