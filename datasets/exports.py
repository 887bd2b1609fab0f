"""A version as a file: JSONL byte for byte, CSV that no spreadsheet runs, Parquet. All in constant memory."""

import csv
import io
import re
import tempfile
from collections.abc import Iterator
from typing import Any

from datasets.formats.base import FileFacts
from datasets.formats.delimited import ITEM_COLUMN, JSON_MARK, SPLIT_COLUMN
from datasets.formats.sniff import UTF8_MARK
from datasets.formats.strict_json import dumps
from datasets.models import DatasetVersion, FileImport, Item
from datasets.readers import as_utf8
from rftstudio.core.errors import UserError

FORMATS = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
_FORMULA = re.compile(r"^[=+\-@\t\r']")
_CHUNK = 256 * 1024


def export(version: DatasetVersion, file_format: str, split: str = "") -> Iterator[bytes]:
    """The bytes of the export, piece by piece."""
    writers = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}
    if file_format not in writers:
        raise UserError(f"There is no export as {file_format!r}.", fix="Choose jsonl, csv or parquet.")
    return writers[file_format](version, split)


def _items(version: DatasetVersion, split: str) -> Iterator[Item]:
    rows = Item.objects.filter(version=version).order_by("position")
    return (rows.filter(split=split) if split else rows).iterator(chunk_size=1000)


def _unchanged_source(version: DatasetVersion, split: str) -> FileImport | None:
    """The one JSONL file that the version still equals, with no line refused and none changed."""
    imports = list(version.imports.select_related("source_file"))
    if split or len(imports) != 1 or imports[0].facts.get("format") != "jsonl" or imports[0].mapping:
        return None
    done = imports[0].status == FileImport.Status.DONE and imports[0].item_count == version.item_count
    touched = version.changes.filter(undone_at=None).exists() or version.problems.exists()
    return imports[0] if done and not touched else None


def _jsonl(version: DatasetVersion, split: str) -> Iterator[bytes]:
    source = _unchanged_source(version, split)
    if source:
        with source.source_file.content.open("rb") as stream:
            text = as_utf8(stream, FileFacts(**source.facts)) if source.encoding else stream
            text.seek(0)
            while piece := text.read(_CHUNK):
                yield piece
        return
    first = version.imports.first()
    facts = first.facts if first and first.facts.get("format") == "jsonl" else {}
    end = b"\r\n" if facts.get("line_end") == "\r\n" else b"\n"
    if facts.get("encoding_mark"):
        yield UTF8_MARK
    buffer, size = [], 0
    for item in _items(version, split):
        line = item.raw.encode() + end
        buffer.append(line)
        size += len(line)
        if size > _CHUNK:
            yield b"".join(buffer)
            buffer, size = [], 0
    yield b"".join(buffer)


def safe_cell(text: str) -> str:
    """A text that a spreadsheet will not run: a leading = + - @ tab or CR gets an apostrophe, and so does an apostrophe,
    so that the import of our own CSV can take exactly one off again."""
    return "'" + text if _FORMULA.match(text) else text


def _columns(version: DatasetVersion) -> list[tuple[str, str]]:
    """`(field, column)`: a field that is not a text in every row is written as JSON, and its column says so."""
    columns, rows = [], version.stats.get("rows", 0)
    for name, kinds in version.stats.get("fields", {}).items():
        is_text = kinds == {"string": rows}
        is_structured = name in ("messages", "tools")
        columns.append((name, name if is_text or is_structured else name + JSON_MARK))
    return columns


def _csv(version: DatasetVersion, split: str) -> Iterator[bytes]:
    columns = _columns(version)
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow([ITEM_COLUMN, *(safe_cell(column) for _, column in columns), SPLIT_COLUMN])
    for item in _items(version, split):
        value = item.data
        writer.writerow([safe_cell(item.key), *(_cell(value, name, column) for name, column in columns), item.split])
        if buffer.tell() > _CHUNK:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def _cell(value: dict[str, Any], name: str, column: str) -> str:
    if name not in value:
        return ""
    inner = value[name]
    if column.endswith(JSON_MARK) or not isinstance(inner, str):
        return dumps(inner)  # JSON starts no formula, and -1 stays -1
    return safe_cell(inner)


def _parquet(version: DatasetVersion, split: str) -> Iterator[bytes]:
    """Texts as texts; everything else as JSON text, because Parquet wants one type for a column."""
    from datasets.formats.parquet import MISSING, MISSING_FIX

    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as exc:
        raise UserError(MISSING.replace("Reading", "Writing"), fix=MISSING_FIX) from exc
    columns = _columns(version)
    names = [column for _, column in columns] + [SPLIT_COLUMN]
    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
    with tempfile.TemporaryFile() as target:
        with pyarrow.parquet.ParquetWriter(target, schema) as writer:
            for batch in _batches(_items(version, split)):
                rows = [_parquet_row(item, columns) for item in batch]
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
        target.seek(0)
        while piece := target.read(_CHUNK):
            yield piece


def _parquet_row(item: Item, columns: list[tuple[str, str]]) -> dict[str, str | None]:
    value, row = item.data, {}
    for name, column in columns:
        inner = value.get(name)
        plain = isinstance(inner, str) and not column.endswith(JSON_MARK)
        row[column] = inner if plain or name not in value else dumps(inner)
    return row | {SPLIT_COLUMN: item.split}


def _batches(items: Iterator[Item], size: int = 1000) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
