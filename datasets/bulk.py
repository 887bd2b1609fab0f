"""Puts many items into their table at once: one statement and plain tuples, because objects would cost as much as SQLite."""

from collections.abc import Sequence
from typing import Any

from django.db import connection

from datasets.models import Item

ITEM_COLUMNS = (
    "version_id", "position", "line", "key", "title", "split", "raw", "digest", "question_hash", "problem",
)  # fmt: skip


def items_insert(rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert tuples in the order of ITEM_COLUMNS, inside the caller's transaction."""
    if not rows:
        return
    names = ", ".join(f'"{name}"' for name in ITEM_COLUMNS)
    table = connection.ops.quote_name(Item._meta.db_table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        marks = ", ".join(["%s"] * len(ITEM_COLUMNS))
        cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608 our own names
