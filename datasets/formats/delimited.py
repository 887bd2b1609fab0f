"""CSV and TSV by the standard library's reader. Cells are texts: NA, null and 007 stay what was typed.

A file that we exported ourselves (it has the column `rft_item`) gets its types and its raw texts back:
columns named `x:json` hold JSON, and the apostrophe that keeps spreadsheets from running formulas is removed.
"""

import csv
import json
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any, BinaryIO

from datasets.formats.base import (
    KEPT_TEXT,
    MAX_ROW_BYTES,
    BadLine,
    Blank,
    Cursor,
    FileFacts,
    FileRefused,
    Row,
    pass_over,
)
from datasets.formats.strict_json import SAVE_AS_UTF8, canonical_bytes, dumps

ITEM_COLUMN, SPLIT_COLUMN, JSON_MARK = "rft_item", "rft_split", ":json"
STRUCTURED = ("messages", "tools")
_ESCAPED = re.compile(r"^'[=+\-@\t\r']")
_BAD_BYTE = re.compile("[\udc80-\udcff]")
csv.field_size_limit(MAX_ROW_BYTES)
# Text may be read again after an open quote, but in all not more than this and so many times the text of the file.
REREAD_FREE, REREAD_TIMES = 8 * 1024 * 1024, 4


def read(stream: BinaryIO, facts: FileFacts, cursor: Cursor) -> Iterator[Row | BadLine | Blank]:
    """Rows after the first `cursor.records` records (the header not counted)."""
    stream.seek(0)
    lines = _Lines(stream)
    records = _Records(lines, facts.delimiter or ",")
    facts.columns = _header(records)
    is_own = ITEM_COLUMN in facts.columns
    for index, (line, cells) in enumerate(records, 1):
        if index <= cursor.records:
            continue
        if isinstance(cells, csv.Error):
            yield _broken(cells, line, index, lines)
        elif not any(cells):
            yield Blank(line, index)
        else:
            yield _row(cells, facts.columns, line, index, is_own)


_PLAIN = {"unexpected end of data": "a quote opens here and is closed nowhere"}


class _TooLong(csv.Error):
    """The record in hand has more than MAX_ROW_BYTES; most likely because of an open quote."""


def _broken(error: csv.Error, line: int, index: int, lines: "_Lines") -> BadLine:
    code, message = "bad_csv", f"The quoting is broken: {_PLAIN.get(str(error), error)}."
    fix = "Put quotes around the whole cell and double the quotes inside it."
    if isinstance(error, _TooLong):
        code, message = (
            "line_too_long",
            "The row has more than 32 MiB; perhaps a quote opens here and is closed nowhere.",
        )
        fix = "Close the quote, or move large attachments out of the row."
    if lines.swallowed:
        message += f" The {lines.swallowed:,} lines behind it are left out too: too many quotes in this file stay open."
    return BadLine(line, 1, code, message, fix, index).holding(lines.refused)


class _Lines:
    """The file's lines as texts, with the bytes of the record in hand, so that its lines can be given back. Bytes in one
    piece and not a text for each line: 32 MiB of short lines would need a gigabyte."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.number = stream, 0
        self.taken, self.first, self.count = bytearray(), 0, 0  # the record; bytes of its first line; its lines
        self.waiting: list[BytesIO] = []  # what was given back, the next to be read on top
        self.read = self.reread = 0  # bytes from the file, and given back
        self.refused, self.swallowed = b"", 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._drop_read()
        body = self.waiting[-1].readline() if self.waiting else self._from_file()
        if not body:
            raise StopIteration
        self.number += 1
        self.count += 1
        self.first = self.first or len(body)
        self.taken += body
        if len(self.taken) > MAX_ROW_BYTES:
            raise _TooLong
        line = body.decode("utf-8", "surrogateescape")
        return line.removeprefix("\ufeff") if self.number == 1 else line

    def _from_file(self) -> bytes:
        body = self.stream.readline(MAX_ROW_BYTES + 1)
        if len(body) > MAX_ROW_BYTES and not body.endswith(b"\n"):
            pass_over(self.stream)
        self.read += len(body)
        return body

    def _drop_read(self) -> None:
        while self.waiting and self.waiting[-1].tell() == self.waiting[-1].getbuffer().nbytes:
            self.waiting.pop()

    def start_record(self) -> None:
        self.taken, self.first, self.count = bytearray(), 0, 0

    def give_back(self) -> None:
        """All lines of the record but its first: an open quote swallows what follows, and only its own line is bad. Where
        that has happened too often the record is lost whole, or a file of open quotes would be read once for each line."""
        size = len(self.taken) - self.first
        is_too_much = self.reread + size > REREAD_FREE + REREAD_TIMES * self.read
        self.swallowed = self.count - 1 if is_too_much else 0
        lost = self.taken if is_too_much else self.taken[: self.first]
        self.refused = bytes(lost.rstrip(b"\r\n")[: KEPT_TEXT + 1])
        if size and not is_too_much:
            self._drop_read()
            self.reread += size
            self.waiting.append(BytesIO(memoryview(self.taken)[self.first :]))
            self.number -= self.count - 1
        self.start_record()


class _Records:
    """`(first line, cells)` of each record; instead of the cells the error of one that cannot be read."""

    def __init__(self, lines: _Lines, delimiter: str) -> None:
        self.lines, self.delimiter = lines, delimiter
        self.reader = csv.reader(lines, delimiter=delimiter, strict=True)

    def __iter__(self) -> Iterator[tuple[int, list[str] | csv.Error]]:
        return self

    def __next__(self) -> tuple[int, list[str] | csv.Error]:
        self.lines.start_record()
        line = self.lines.number + 1
        try:
            return line, next(self.reader)
        except csv.Error as exc:
            self.lines.give_back()
            self.reader = csv.reader(self.lines, delimiter=self.delimiter, strict=True)
            return line, exc


def _header(records: _Records) -> list[str]:
    line, names = next(
        (
            (line, cells)
            for line, cells in records
            if isinstance(cells, csv.Error) or (any(cells) and cells[0] != "sep=")
        ),
        (1, []),
    )
    if isinstance(names, csv.Error):
        raise FileRefused("bad_csv", f"The column names cannot be read: {names}.", "Quote the column names.", line=line)
    if any(_BAD_BYTE.search(name) for name in names):
        raise FileRefused("not_utf8", "The header is not valid UTF-8.", SAVE_AS_UTF8)
    names = [name.strip() or f"column {number}" for number, name in enumerate(names, 1)]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise FileRefused(
            "doubled_column", f"Two columns are named {doubled[0]!r}.", "Give each column a name of its own.", line=line,
            column=len(names) - names[::-1].index(doubled[0]),
        )  # fmt: skip
    return names


def _row(cells: list[str], header: list[str], line: int, index: int, is_own: bool) -> Row | BadLine:
    if len(cells) != len(header):
        return BadLine(
            line, min(len(cells), len(header)) + 1, "cell_count",
            f"The row has {len(cells)} cells, the header has {len(header)}.",
            "Quote cells that hold the separator, and leave no cell out.", index,
        ).holding(dumps(cells))  # fmt: skip
    value: dict[str, Any] = {}
    for number, (name, cell) in enumerate(zip(header, cells, strict=True), 1):
        if _BAD_BYTE.search(cell):
            bad = next(ord(char) - 0xDC00 for char in cell if _BAD_BYTE.match(char))
            return BadLine(line, number, "not_utf8", f"Not valid UTF-8: byte 0x{bad:02X} in column {name!r}.",
                           SAVE_AS_UTF8, index).holding(dumps(cells))  # fmt: skip
        try:
            _put(value, name, cell, is_own)
        except (ValueError, RecursionError) as exc:
            return BadLine(line, number, "invalid_json", f"Column {name!r} should hold JSON: {exc}.",
                           "Correct the cell.", index).holding(dumps(cells))  # fmt: skip
    split = cells[header.index(SPLIT_COLUMN)] if is_own and SPLIT_COLUMN in header else ""
    notes = ("nul_character",) if any("\x00" in cell for cell in cells) else ()
    return Row(line, dumps(value), value, canonical_bytes(value), index, notes, split)


def _put(value: dict[str, Any], name: str, cell: str, is_own: bool) -> None:
    if is_own:
        if name.endswith(JSON_MARK):
            if cell:
                value[name.removesuffix(JSON_MARK)] = strict(cell)
            return
        if name in (ITEM_COLUMN, SPLIT_COLUMN):
            return
        cell = cell[1:] if _ESCAPED.match(cell) else cell
    if name in STRUCTURED and cell.lstrip()[:1] in ("[", "{"):
        value[name] = strict(cell)
    elif name not in STRUCTURED or cell:
        value[name] = cell


def strict(cell: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.loads(cell, parse_constant=refuse)
