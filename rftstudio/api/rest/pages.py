"""Cursor pages. The cursor names the last row seen by a number that never changes and is unique, so that rows written
meanwhile neither shift a page nor make a row come twice."""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from rest_framework import serializers

from rftstudio.core.errors import UserError

LIMIT, MOST = 50, 200
Finder = Callable[[int | None, int, bool], list[Any]]


class PageQuery(serializers.Serializer):
    limit = serializers.IntegerField(min_value=1, max_value=MOST, default=LIMIT, help_text="Rows on a page.")
    cursor = serializers.CharField(
        max_length=80, required=False, help_text="`next_cursor` or `previous_cursor` of an earlier answer."
    )
    order = serializers.ChoiceField(
        ["desc", "asc"], required=False, help_text="desc: newest first. Each list has an order of its own."
    )


@dataclass(frozen=True)
class Cursor:
    """Where a page starts: behind (`n`) or before (`p`) the row with this number, in this order."""

    way: str
    order: str
    number: int

    def text(self) -> str:
        return base64.urlsafe_b64encode(f"{self.way}{self.order[0]}{self.number}".encode()).decode().rstrip("=")


def cursor_from(text: str) -> Cursor:
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
        way, order, number = plain[0], {"d": "desc", "a": "asc"}[plain[1]], int(plain[2:])
        if way not in "np" or not 0 <= number < 2**63:
            raise ValueError
    except (ValueError, KeyError, IndexError, binascii.Error) as exc:
        raise UserError(
            "This cursor was not made here.", where="cursor", fix="Pass next_cursor of the answer before, unchanged."
        ) from exc
    return Cursor(way, order, number)


@dataclass(frozen=True)
class Page:
    """One page, in order, and the cursors of its neighbours."""

    rows: Sequence[Any]
    next: str | None
    previous: str | None


def page_of(rows: QuerySet, query: dict[str, Any], *, by: str = "pk", order: str = "desc") -> Page:
    """One page of a queryset by `by`, a unique whole number that never changes on a row."""

    def find(number: int | None, count: int, falls: bool) -> list[Any]:
        found = rows.order_by(f"-{by}" if falls else by)
        if number is not None:
            found = found.filter(**{f"{by}__{'lt' if falls else 'gt'}": number})
        return list(found[:count])

    return page_found(find, query, by=by, order=order)


def page_found(find: Finder, query: dict[str, Any], *, by: str = "pk", order: str = "desc") -> Page:
    """One page of what `find(number, count, falls)` finds: so many rows behind that number, falling or rising."""
    cursor = cursor_from(query["cursor"]) if query.get("cursor") else None
    order = cursor.order if cursor else query.get("order") or order
    limit = query["limit"]
    is_back = cursor is not None and cursor.way == "p"
    falls = (order == "desc") != is_back
    page = find(cursor.number if cursor else None, limit + 1, falls)
    more, page = len(page) > limit, page[:limit]
    if is_back:
        page.reverse()
    return Page(page, *_neighbours(page, cursor, order, by, more=more, is_back=is_back))


def _neighbours(
    page: Sequence[Any], cursor: Cursor | None, order: str, by: str, *, more: bool, is_back: bool
) -> tuple[str | None, str | None]:
    if not page:
        return None, None
    has_next, has_previous = (True, more) if is_back else (more, cursor is not None)
    first, last = getattr(page[0], by), getattr(page[-1], by)
    return (
        Cursor("n", order, last).text() if has_next else None,
        Cursor("p", order, first).text() if has_previous else None,
    )


def links(path: str, query: dict[str, str], page: Page) -> str:
    """The `Link` header (RFC 8288)."""
    found = []
    for rel, cursor in (("next", page.next), ("prev", page.previous)):
        if cursor:
            found.append(f'<{path}?{urlencode({**query, "cursor": cursor})}>; rel="{rel}"')
    return ", ".join(found)


def whole(rows: Iterable[Any]) -> Page:
    """A list that is always short, in one page."""
    return Page(list(rows), None, None)
