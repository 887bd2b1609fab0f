"""The common part of every address of /api: who asks and what for, conditions, idempotency, pages, problem details."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response, patch_cache_control
from rest_framework import exceptions, serializers
from rest_framework.parsers import JSONParser
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from rftstudio.api.authentication import ApiKeyAuthentication
from rftstudio.api.rest import once, pages
from rftstudio.api.rest.authentication import TeamSession
from rftstudio.api.rest.problems import PreconditionFailed, problem_handler
from rftstudio.core.errors import NotFound, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can

#: Deeper bodies are refused; nothing that Studio keeps is half as deep.
DEEPEST = 60


class Endpoint(APIView):
    """One address. Methods are decorated by `describe`, which names the right that they ask for.

    Serializer in, one service, serializer out.
    """

    authentication_classes = [ApiKeyAuthentication, TeamSession]
    permission_classes = [IsAuthenticated]
    parser_classes: ClassVar[list] = [JSONParser]
    renderer_classes = [JSONRenderer]
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    _has_asked = False
    #: Trials store nothing and may take long, so they are not held in a transaction for an idempotency key.
    is_kept = True

    @property
    def actor(self) -> Actor:
        return self.request.auth

    @property
    def team(self) -> Team:
        return self.request.auth.team

    def get_exception_handler(self) -> Callable:
        return problem_handler

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        handler = getattr(self, str(request.method).lower(), None)
        if handler is None:
            raise exceptions.MethodNotAllowed(str(request.method))
        if any("\x00" in str(value) for value in kwargs.values()):
            raise NotFound("There is nothing at this address.")
        request._request.actor = request.auth
        check_can(self.actor, getattr(handler, "right", Permission.VIEW), team=self.team)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """As the framework's, with conditions and idempotency around the handler."""
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            self.initial(self.request, *args, **kwargs)
            response = self._answer(self.request)
        except Exception as exc:
            response = self.handle_exception(exc)
        self.response = self.finalize_response(self.request, response, *args, **kwargs)
        return self._conditional(self.response)

    def _answer(self, request: Request) -> HttpResponseBase:
        method = str(request.method).lower()
        handler = getattr(self, method)

        def run() -> Any:
            answer = handler(request, **self.kwargs)
            if not self._has_asked:
                self.asked()  # what nobody read is refused, not passed over
            return answer

        if method == "post" and self.is_kept and once.HEADER in request.headers:
            self.body()
            return once.answer_once(request, run)
        if method in {"put", "patch", "delete"} and "If-Match" in request.headers:
            return self._if_match(request, run)
        return run()

    def _if_match(self, request: Request, run: Callable[[], Any]) -> Any:
        """Write only what has not changed. The team's row is held, so of two such writes at once one is refused."""
        with transaction.atomic():
            Team.objects.select_for_update(no_key=True).get(pk=self.team.pk)
            present = _etag(JSONRenderer().render(self.get(request, **self.kwargs).data))
            wanted = [tag.strip() for tag in request.headers["If-Match"].split(",")]
            if present not in wanted and "*" not in wanted:
                raise PreconditionFailed
            return run()

    def _conditional(self, response: HttpResponseBase) -> HttpResponseBase:
        if not isinstance(response, Response):
            return response
        response.render()
        patch_cache_control(response, private=True, no_cache=True)
        if self.request.method not in {"GET", "HEAD"} or response.status_code != 200:
            return response
        response["ETag"] = _etag(response.rendered_content)
        # Of GET alone: a condition on a write is tested before it, in `_answer`.
        return get_conditional_response(self.request._request, etag=response["ETag"], response=response) or response

    # -- in ----------------------------------------------------------------------------------------------------------

    def body(self) -> Any:
        """The parsed body, without what no database or page can hold."""
        try:
            data = self.request.data
        except RecursionError as exc:
            raise UserError("The body is nested too deeply.", fix="Send plainer JSON.") from exc
        if self.request.content_type == "application/json":
            _check_plain(data)
        return data

    def values(self, serializer: type[serializers.Serializer], **context: Any) -> dict[str, Any]:
        """The body as the serializer's values; what it does not know is refused by name."""
        made = serializer(data=self.body(), context={"team": self.team, **context})
        made.is_valid(raise_exception=True)
        return made.validated_data

    def asked(self, *wanted: type[serializers.Serializer]) -> dict[str, Any]:
        """The query string as these serializers' values."""
        self._has_asked = True
        found: dict[str, Any] = {}
        known = {name for each in wanted for name in each().fields}
        for name, value in self.request.query_params.items():
            if name not in known:
                raise UserError(
                    f"There is no parameter {name!r}.", where=name, fix=f"Known: {', '.join(sorted(known)) or 'none'}."
                )
            if "\x00" in value:
                raise UserError("A parameter holds a NUL character.", where=name, fix="Leave it out.")
        for each in wanted:
            given = self.request.query_params
            made = each(data={name: given[name] for name in each().fields if name in given})
            made.is_valid(raise_exception=True)
            found |= made.validated_data
        return found

    # -- out ---------------------------------------------------------------------------------------------------------

    def shown(self, row: Any, serializer: type[serializers.Serializer], *, status: int = 200) -> Response:
        return Response(serializer(row, context={"actor": self.actor, "team": self.team}).data, status=status)

    def page(
        self, rows: QuerySet, serializer: type[serializers.Serializer], *, by: str = "pk", order: str = "desc",
        query: dict[str, Any] | None = None,
    ) -> Response:  # fmt: skip
        """One page of a queryset, with cursors to its neighbours."""
        found = pages.page_of(rows, query or self.asked(pages.PageQuery), by=by, order=order)
        return self.paged(found, serializer)

    def listed(self, rows: Iterable[Any], serializer: type[serializers.Serializer]) -> Response:
        """A list that is always short, in the shape of a page."""
        self.asked()
        return self.paged(pages.whole(rows), serializer)

    def paged(self, page: pages.Page, serializer: type[serializers.Serializer]) -> Response:
        data = serializer(page.rows, many=True, context={"actor": self.actor, "team": self.team}).data
        response = Response({"data": data, "next_cursor": page.next, "previous_cursor": page.previous})
        if link := pages.links(self.request.path, dict(self.request.query_params.items()), page):
            response["Link"] = link
        return response


def nothing() -> Response:
    return Response(status=204)


def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _check_plain(value: Any, depth: int = 0) -> None:
    """Refuse NUL characters, lone surrogates and bottomless nesting, wherever they stand."""
    if depth > DEEPEST:
        raise UserError("The body is nested too deeply.", fix=f"Nest at most {DEEPEST} levels.")
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise UserError("A text holds a NUL character or half a surrogate pair.", fix="Take it out of the text.")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_plain(key, depth + 1)
            _check_plain(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_plain(inner, depth + 1)


def stream(content: Iterable[bytes] | Iterable[str], content_type: str, filename: str) -> HttpResponseBase:
    """A download, piece by piece."""
    from django.http import StreamingHttpResponse

    response = StreamingHttpResponse(content, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{filename}"'
    return response


__all__ = ["Endpoint", "HttpResponse", "nothing", "stream"]
