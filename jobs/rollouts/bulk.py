"""Inserts many rows at once. Django's own bulk_create spends more time on each row than the database does."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from datetime import UTC, datetime
from itertools import chain
from operator import itemgetter
from typing import Any

import orjson
from django.db import connection, models
from django.utils import timezone

from jobs.rollouts.cleaning import clean_json

#: A statement takes several rows: for each statement SQLite's text index writes its words out, which costs more than
#: the row itself, and PostgreSQL is asked less often. No database refuses this many parameters.
PARAMETERS = 900


def insert(model: type[models.Model], rows: Iterable[dict[str, Any]]) -> int:
    """Insert rows given as dicts by column attribute (`batch_id`); all rows name the same columns, and what they leave
    out takes the field's default. Rows are taken one by one, so what makes them need not keep them.

    No signals, no validation; the database's constraints hold. Belongs into a transaction.
    """
    coming = iter(rows)
    first = next(coming, None)
    if first is None:
        return 0
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    given = [field for field in fields if field.attname in first]
    left = [field for field in fields if field.attname not in first]
    quote = connection.ops.quote_name
    names = ", ".join(quote(field.column) for field in [*given, *left])
    head = f"INSERT INTO {quote(model._meta.db_table)} ({names}) VALUES "  # noqa: S608 - names are columns
    places = f"({', '.join(['%s'] * len(fields))})"
    values = list(_values(chain([first], coming), given, left))
    per = PARAMETERS // len(fields)
    whole = len(values) - len(values) % per
    with connection.cursor() as cursor:
        if whole:
            parts = [[*chain.from_iterable(values[start : start + per])] for start in range(0, whole, per)]
            cursor.executemany(head + ", ".join([places] * per), parts)
        if rest := values[whole:]:
            cursor.execute(head + ", ".join([places] * len(rest)), [*chain.from_iterable(rest)])
    return len(values)


def _values(rows: Iterable[dict[str, Any]], given: list[models.Field], left: list[models.Field]) -> Iterator[list]:
    pick = itemgetter(*(field.attname for field in given)) if len(given) > 1 else _only(given[0].attname)
    special = [(place, convert) for place, field in enumerate(given) if (convert := _converter(field))]
    defaults = [(_default(field), _converter(field) or _as_it_is) for field in left]
    for row in rows:
        made = list(pick(row))
        for place, convert in special:
            if made[place] is not None:
                made[place] = convert(made[place])
        if defaults:
            made.extend([convert(default()) for default, convert in defaults])
        yield made


def _only(name: str) -> Callable[[dict[str, Any]], tuple]:
    return lambda row: (row[name],)


def _default(field: models.Field) -> Callable[[], Any]:
    if getattr(field, "auto_now_add", False) or getattr(field, "auto_now", False):
        now = timezone.now()
        return lambda: now
    return field.get_default


def _converter(field: models.Field) -> Callable[[Any], Any] | None:
    """What a value needs on its way to the driver; None where it goes as it is."""
    if isinstance(field, models.JSONField):
        return _json
    if isinstance(field, models.DateTimeField):
        return _moment if connection.vendor == "sqlite" else connection.ops.adapt_datetimefield_value
    if isinstance(field, models.DecimalField):
        return lambda value: connection.ops.adapt_decimalfield_value(value, field.max_digits, field.decimal_places)
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _moment(value: datetime | None) -> str | None:
    """As Django writes it into SQLite: UTC without a zone."""
    if value is None:
        return None
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC)
    return value.isoformat(" ")[:-6]  # +00:00


def _json(value: Any) -> str | None:
    """JSON text that every database takes: no NUL, no lone surrogates. Dataclasses are written as their fields."""
    if value is None:
        return None
    try:
        data = orjson.dumps(value)
    except TypeError:  # a lone surrogate, or a number of more than 64 bits, which keeps its digits this way
        return json.dumps(clean_json(_plain(value)))
    if b"\\u0000" in data:
        data = orjson.dumps(clean_json(_plain(value)))
    return data.decode()


def _plain(value: Any) -> Any:
    """Dataclasses in lists as dicts."""
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return vars(value) if is_dataclass(value) else value
