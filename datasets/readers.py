"""Opens a file with the reader of its format. Portable."""

import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from datasets.formats import delimited, json_array, jsonl, parquet
from datasets.formats.base import BadLine, Blank, Cursor, FileFacts, Row
from datasets.formats.encodings import Recoded
from datasets.formats.sniff import HEAD_BYTES, sniff
from datasets.row_mapping import apply_mapping, usual_mapping

READERS: dict[str, Callable[[BinaryIO, FileFacts, Cursor], Iterator[Row | BadLine | Blank]]] = {
    "jsonl": jsonl.read,
    "json_array": json_array.read,
    "delimited": delimited.read,
    "parquet": parquet.read,
}
TABLES = {"delimited", "parquet"}


def facts_of(stream: BinaryIO, filename: str, encoding: str = "") -> FileFacts:
    """What the file is; FileRefused when it is something else. With `encoding` it is read in that one."""
    head = io.BufferedReader(Recoded(stream, encoding)) if encoding else stream
    head.seek(0)
    facts = sniff(head.read(HEAD_BYTES), filename)
    facts.encoding = encoding
    return facts


def as_utf8(stream: BinaryIO, facts: FileFacts) -> BinaryIO:
    """The file as the readers take it: UTF-8, with no bare CR at line ends."""
    has_bare_cr = facts.line_end == "\r"
    if not facts.encoding and not has_bare_cr:
        return stream
    return io.BufferedReader(Recoded(stream, facts.encoding or "utf-8", has_bare_cr=has_bare_cr), 256 * 1024)


def read(stream: BinaryIO, facts: FileFacts, cursor: Cursor | None = None) -> Iterator[Row | BadLine | Blank]:
    return READERS[facts.format](as_utf8(stream, facts), facts, cursor or Cursor())


def first_rows(stream: BinaryIO, facts: FileFacts, count: int) -> list[Row]:
    """The first good rows, for a preview."""
    rows: list[Row] = []
    for event in read(stream, facts):
        if isinstance(event, Row):
            rows.append(event)
        if len(rows) >= count or event.line > 10_000:
            break
    return rows


def suggested_mapping(rows: list[Row], facts: FileFacts) -> dict[str, str]:
    """What the usual column names of a table suggest; nothing for JSON, whose rows are kept as they are."""
    return usual_mapping(list(rows[0].value)) if rows and facts.format in TABLES else {}


def preview(stream: BinaryIO, facts: FileFacts, mapping: dict[str, str], count: int = 3) -> list[dict[str, Any]]:
    """The first rows as they will become."""
    rows = first_rows(stream, facts, count)
    return [apply_mapping(row.value, mapping) or row.value if mapping else row.value for row in rows]
