"""Parquet, by pyarrow, which is an optional extra because it is heavy."""

import base64
import datetime
import decimal
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

from datasets.formats.base import BadLine, Blank, Cursor, FileFacts, FileRefused, Row
from datasets.formats.delimited import JSON_MARK, SPLIT_COLUMN, STRUCTURED, strict
from datasets.formats.strict_json import canonical_bytes, dumps

MISSING = "Reading Parquet needs pyarrow, which this installation does not have."
MISSING_FIX = "Install it with `pip install rft-studio[parquet]`, or save the file as JSONL or CSV."


def read(stream: BinaryIO, facts: FileFacts, cursor: Cursor) -> Iterator[Row | BadLine | Blank]:
    """Rows after the first `cursor.records`; a row's number stands for its line."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as exc:
        raise FileRefused("parquet_missing", MISSING, MISSING_FIX) from exc
    try:
        table = pyarrow.parquet.ParquetFile(stream)
        facts.columns = table.schema_arrow.names
        doubled = next((name for name in facts.columns if facts.columns.count(name) > 1), None)
        if doubled is not None:
            raise FileRefused(
                "doubled_column", f"Two columns are named {doubled!r}.", "Give each column a name of its own."
            )
        is_own = SPLIT_COLUMN in facts.columns and all(map(pyarrow.types.is_string, table.schema_arrow.types))
        batches = table.iter_batches(batch_size=256)
        number = 0
        for batch in batches:
            if number + batch.num_rows <= cursor.records:
                number += batch.num_rows
                continue
            for record in batch.to_pylist():
                number += 1
                if number > cursor.records:
                    yield (_own_row if is_own else _row)(record, number)
    except pyarrow.ArrowException as exc:
        raise FileRefused(
            "bad_parquet", f"The Parquet file cannot be read: {exc}", "It may be cut. Write or fetch it again."
        ) from exc


def _row(record: dict[str, Any], number: int) -> Row | BadLine:
    value: dict[str, Any] = {}
    for place, (name, cell) in enumerate(record.items(), 1):
        try:
            value[name] = _json(cell)
        except ValueError as exc:
            return BadLine(number, place, "nan_literal", f"Column {name!r} holds {exc}, which is not JSON.",
                           "Write null, or leave the field out.", number).holding(repr(record))  # fmt: skip
    for name in STRUCTURED:
        _open_structured(value, name)
    raw = dumps(value)
    return Row(number, raw, value, canonical_bytes(value), number, ("nul_character",) if "\\u0000" in raw else ())


def _own_row(record: dict[str, Any], number: int) -> Row | BadLine:
    """A row of our own export: JSON text under `x:json`, and what is null was never there."""
    value: dict[str, Any] = {}
    for name, cell in record.items():
        if cell is None or name == SPLIT_COLUMN:
            continue
        is_json = name.endswith(JSON_MARK) or (name in STRUCTURED and cell[:1] in ("[", "{"))
        try:
            value[name.removesuffix(JSON_MARK)] = strict(cell) if is_json else cell
        except (ValueError, RecursionError) as exc:
            return BadLine(number, [*record].index(name) + 1, "invalid_json", f"Column {name!r} should hold JSON: {exc}.",
                           "Correct the cell.", number).holding(repr(record))  # fmt: skip
    return Row(number, dumps(value), value, canonical_bytes(value), number, split=record[SPLIT_COLUMN] or "")


def _open_structured(value: dict[str, Any], name: str) -> None:
    """Tools and messages are often kept as JSON text, because Parquet wants one shape for all rows."""
    cell = value.get(name)
    if cell is None:
        value.pop(name, None)
    elif isinstance(cell, str) and cell.lstrip()[:1] == "[":
        try:
            value[name] = json.loads(cell)
        except ValueError:
            return
    elif isinstance(cell, list) and name == "messages":
        value[name] = [_without_nulls(message) for message in cell]


def _without_nulls(message: Any) -> Any:
    """A struct column gives every message every key; null ones (but for content) were never there."""
    if not isinstance(message, dict):
        return message
    return {key: inner for key, inner in message.items() if inner is not None or key == "content"}


def _json(cell: Any) -> Any:
    if isinstance(cell, float) and not math.isfinite(cell):
        raise ValueError("NaN" if math.isnan(cell) else "Infinity")
    if isinstance(cell, dict):
        return {str(key): _json(inner) for key, inner in cell.items()}
    if isinstance(cell, (list, tuple)):
        return [_json(inner) for inner in cell]
    if isinstance(cell, (datetime.datetime, datetime.date, datetime.time)):
        return cell.isoformat()
    if isinstance(cell, (decimal.Decimal, datetime.timedelta)):
        return str(cell)
    if isinstance(cell, bytes):
        return base64.b64encode(cell).decode()
    return cell
