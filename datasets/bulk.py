"""Puts many items into their table at once: one statement and plain tuples, because objects would cost as much as SQLite."""

from collections.abc import Sequence
from typing import Any

from django.db import connection

from datasets.item_search import words_insert
from datasets.models import Item

ITEM_COLUMNS = (
    "version_id", "position", "line", "key", "title", "split", "raw", "digest", "question_hash", "problem",
)  # fmt: skip


def items_insert(rows: Sequence[tuple[Any, ...]], words: Sequence[str]) -> None:
    """Insert tuples in the order of ITEM_COLUMNS with the words each is found by, inside the caller's transaction."""
    if not rows:
        return
    names = ", ".join(f'"{name}"' for name in ("id", *ITEM_COLUMNS))
    table = connection.ops.quote_name(Item._meta.db_table)
    with connection.cursor() as cursor:
        ids = _ids(cursor, len(rows))
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for pk, row in zip(ids, rows, strict=True):
                    copy.write_row((pk, *row))
        else:
            marks = ", ".join(["%s"] * (len(ITEM_COLUMNS) + 1))
            cursor.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608 our own names
                [(pk, *row) for pk, row in zip(ids, rows, strict=True)],
            )
    words_insert([(pk, row[0], said) for pk, row, said in zip(ids, rows, words, strict=True)])


def _ids(cursor: Any, count: int) -> Sequence[int]:
    """Ids taken beforehand, because a statement for many rows does not tell those it gave. SQLite's write lock is ours
    until the end of the transaction, so nobody else takes the same."""
    if connection.vendor == "postgresql":
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)", [Item._meta.db_table, count]
        )
        return [row[0] for row in cursor.fetchall()]
    cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [Item._meta.db_table])
    found = cursor.fetchone()
    first = (found[0] if found else 0) + 1
    return range(first, first + count)
