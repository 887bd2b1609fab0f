"""The full-text index of items: FTS5 on SQLite, tsvector on PostgreSQL. It is no Django model, because neither is a table
that Django could make. Written with the items, in their transaction; what is found in it is read from the items again."""

from collections.abc import Iterable, Sequence

from django.db import connection

from datasets.models import DatasetVersion, Item
from datasets.words import WORD, Phrase, phrases_of

TABLE = "datasets_item_words"
_ITEMS = Item._meta.db_table
Entry = tuple[int, int, str]  # item id, version id, words


def words_insert(entries: Sequence[Entry]) -> None:
    """Add new items."""
    if not entries:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            ids, versions, said = (list(column) for column in zip(*entries, strict=True))
            words = [" ".join(WORD.findall(text)) for text in said]  # its parser knows addresses and paths, ours do not
            cursor.execute(
                f"INSERT INTO {TABLE} (item_id, version_id, words)"  # noqa: S608 our own names
                " SELECT item, version, to_tsvector('simple', said)"
                " FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS given (item, version, said)"
                " ON CONFLICT (item_id) DO UPDATE SET words = excluded.words, version_id = excluded.version_id",
                [ids, versions, words],
            )
        else:
            rows = [(item, words) for item, _, words in entries]
            cursor.executemany(f"INSERT INTO {TABLE} (rowid, words) VALUES (%s, %s)", rows)  # noqa: S608 our own names


def words_drop(entries: Sequence[Entry]) -> None:
    """Take items out; their words must be those they were put in with. Those that are not in are passed over, because
    FTS5 would count them out all the same and then take the whole index for broken."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"DELETE FROM {TABLE} WHERE item_id = ANY(%s)", [[item for item, _, _ in entries]])  # noqa: S608 our own names
            return
        for item, _, words in entries:
            cursor.execute(
                f"INSERT INTO {TABLE} ({TABLE}, rowid, words) SELECT 'delete', rowid, %s FROM {TABLE} WHERE rowid = %s",  # noqa: S608 our own names
                [words, item],
            )


def items_found(
    version: DatasetVersion, search: str, *, after: int | None, before: int | None, limit: int, **filters: str
) -> list[int]:
    """Ids of items that hold all words of the search, in order of id. Words that no item holds are taken as beginnings."""
    phrases = phrases_of(search)
    first, last = _id_range(version)
    if not phrases or first is None:
        return []
    low = max(first, (after or 0) + 1)
    high = min(last, before - 1) if before is not None else last
    found = _found(version, phrases, filters, low, high, limit, is_backward=before is not None)
    if not found and not _found(version, phrases, {}, first, last, 1):
        begun = [Phrase(words, goes_on=True) for words, _ in phrases]
        found = _found(version, begun, filters, low, high, limit, is_backward=before is not None)
    return found


def _found(
    version: DatasetVersion, phrases: list[Phrase], filters: dict[str, str], low: int, high: int, limit: int,
    *, is_backward: bool = False,
) -> list[int]:  # fmt: skip
    if connection.vendor == "postgresql":
        place, query = "w.item_id", _tsquery(phrases)
        matching = f"{TABLE} w JOIN {_ITEMS} i ON i.id = w.item_id WHERE w.version_id = %s AND w.words @@ %s::tsquery"
    else:
        place, query = "w.rowid", _fts5(phrases)
        matching = f"{TABLE} w CROSS JOIN {_ITEMS} i ON i.id = w.rowid WHERE i.version_id = %s AND w.words MATCH %s"
    narrowed = "".join(f" AND i.{connection.ops.quote_name(name)} = %s" for name in filters)
    order = "DESC" if is_backward else "ASC"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {place} FROM {matching}{narrowed} AND {place} BETWEEN %s AND %s ORDER BY {place} {order} LIMIT %s",  # noqa: S608 our own names
            [version.pk, query, *filters.values(), low, high, limit],
        )
        return [row[0] for row in cursor.fetchall()]


def _id_range(version: DatasetVersion) -> tuple[int | None, int]:
    """Other versions' entries lie outside of it, so they are not even looked at."""
    items = Item.objects.filter(version=version).order_by("pk").values_list("pk", flat=True)
    return items.first(), items.last() or 0


def _fts5(phrases: Iterable[Phrase]) -> str:
    return " AND ".join(f'"{" ".join(words)}"{" *" if goes_on else ""}' for words, goes_on in phrases)


def _tsquery(phrases: Iterable[Phrase]) -> str:
    return " & ".join(
        "(" + " <-> ".join(f"'{word}'" for word in words) + (":*)" if goes_on else ")") for words, goes_on in phrases
    )
