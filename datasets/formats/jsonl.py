"""JSON Lines. Lines end at LF and nowhere else; CRLF loses its CR, blank lines are counted, never an error."""

from collections.abc import Iterator
from typing import BinaryIO

from datasets.formats.base import MAX_ROW_BYTES, BadLine, Blank, Cursor, FileFacts, Row, pass_over
from datasets.formats.eval_items import unwrap
from datasets.formats.sniff import UTF8_MARK
from datasets.formats.strict_json import BadJson, canonical_bytes, parse


def read(stream: BinaryIO, facts: FileFacts, cursor: Cursor) -> Iterator[Row | BadLine | Blank]:
    """Rows from the cursor on. A line longer than 32 MiB is reported and passed over without holding it."""
    start = cursor.offset or (len(UTF8_MARK) if facts.encoding_mark else 0)
    stream.seek(start)
    number, end, readline = cursor.line, start, stream.readline
    while line := readline(MAX_ROW_BYTES + 1):
        number, begin, end = number + 1, end, end + len(line)
        if len(line) > MAX_ROW_BYTES and not line.endswith(b"\n"):
            end += pass_over(stream)
            yield _too_long(number, begin, end).holding(line)
            continue
        body = line[:-1] if line.endswith(b"\n") else line
        if body.endswith(b"\r"):
            body = body[:-1]
        if not body or body.isspace():
            yield Blank(number, end)
            continue
        yield row_or_fault(body, number, begin, end)


def row_or_fault(body: bytes, number: int, begin: int, end: int) -> Row | BadLine:
    """One line's bytes, without its line end, as a row or as a fault with its column."""
    try:
        value, raw, canonical, notes = parse(body)
    except BadJson as fault:
        message = fault.message.replace("{byte}", str(begin + _bad_byte(body)))
        return BadLine(number, fault.column, fault.code, message, fault.fix, end).holding(body)
    if type(value) is not dict:
        return BadLine(
            number, 1, "not_an_object", f"The line holds {_kind(value)}, not an object.",
            'Write each row as {"messages": [...], ...}.', end,
        ).holding(body)  # fmt: skip
    inner = unwrap(value)
    if inner is not value:
        canonical, notes = canonical_bytes(inner), (*notes, "eval_items")
    return Row(number, raw, inner, canonical, end, notes)


def _bad_byte(body: bytes) -> int:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as exc:
        return exc.start
    return 0


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _too_long(number: int, begin: int, end: int) -> BadLine:
    return BadLine(
        number, MAX_ROW_BYTES, "line_too_long", f"The line has {end - begin:,} bytes; a row may have 32 MiB.",
        "Split the row, or move large attachments out of it.", end,
    )  # fmt: skip
