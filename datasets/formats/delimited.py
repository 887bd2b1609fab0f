"""CSV and TSV by the standard library's reader. Cells are texts: NA, null and 007 stay what was typed.

A file that we exported ourselves (it has the column `rft_item`) gets its types and its raw texts back:
columns named `x:json` hold JSON, and the apostrophe that keeps spreadsheets from running formulas is removed.
"""

import csv
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from datasets.formats.base import MAX_ROW_BYTES, BadLine, Blank, Cursor, FileFacts, FileRefused, Row
from datasets.formats.strict_json import canonical_bytes, dumps

ITEM_COLUMN, SPLIT_COLUMN, JSON_MARK = "rft_item", "rft_split", ":json"
STRUCTURED = ("messages", "tools")
_ESCAPED = re.compile(r"^'[=+\-@\t\r']")
_BAD_BYTE = re.compile("[\udc80-\udcff]")
csv.field_size_limit(MAX_ROW_BYTES)


def read(stream: BinaryIO, facts: FileFacts, cursor: Cursor) -> Iterator[Row | BadLine | Blank]:
    """Rows after the first `cursor.records` records (the header not counted)."""
    stream.seek(0)
    lines = (line.decode("utf-8", "surrogateescape") for line in stream)
    reader = csv.reader(_unmarked(lines), delimiter=facts.delimiter or ",", strict=True)
    header = _header(reader)
    is_own = ITEM_COLUMN in header
    index, first_line = 0, reader.line_num + 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as exc:
            cells = exc
        if cells is None:
            return
        index, line, first_line = index + 1, first_line, reader.line_num + 1
        if index <= cursor.records:
            continue
        if isinstance(cells, csv.Error):
            yield BadLine(line, 1, "bad_csv", f"The quoting is broken: {cells}.",
                          "Put quotes around the whole cell and double the quotes inside it.", index)  # fmt: skip
        elif not any(cells):
            yield Blank(line, index)
        else:
            yield _row(cells, header, line, index, is_own)


def _unmarked(lines: Iterator[str]) -> Iterator[str]:
    first = next(lines, "")
    yield first.removeprefix("\ufeff")
    yield from lines


def _header(reader: Any) -> list[str]:
    try:
        names = next((cells for cells in reader if any(cells)), [])
    except csv.Error as exc:
        raise FileRefused("bad_csv", f"The header cannot be read: {exc}.", "Quote the column names.") from exc
    if any(_BAD_BYTE.search(name) for name in names):
        raise FileRefused("not_utf8", "The header is not valid UTF-8.", "Save the file as UTF-8 and upload it again.")
    names = [name.strip() or f"column {number}" for number, name in enumerate(names, 1)]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise FileRefused(
            "doubled_column", f"Two columns are named {doubled[0]!r}.", "Give each column a name of its own."
        )
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
                           "Save the file as UTF-8 and upload it again.", index).holding(dumps(cells))  # fmt: skip
        try:
            _put(value, name, cell, is_own)
        except (ValueError, RecursionError) as exc:
            return BadLine(line, number, "invalid_json", f"Column {name!r} should hold JSON: {exc}.",
                           "Correct the cell.", index).holding(dumps(cells))  # fmt: skip
    split = cells[header.index(SPLIT_COLUMN)] if is_own and SPLIT_COLUMN in header else ""
    return Row(line, dumps(value), value, canonical_bytes(value), index, split=split)


def _put(value: dict[str, Any], name: str, cell: str, is_own: bool) -> None:
    if is_own:
        if name.endswith(JSON_MARK):
            if cell:
                value[name.removesuffix(JSON_MARK)] = _strict(cell)
            return
        if name in (ITEM_COLUMN, SPLIT_COLUMN):
            return
        cell = cell[1:] if _ESCAPED.match(cell) else cell
    if name in STRUCTURED and cell.lstrip()[:1] in ("[", "{"):
        value[name] = _strict(cell)
    elif name not in STRUCTURED or cell:
        value[name] = cell


def _strict(cell: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.loads(cell, parse_constant=refuse)
