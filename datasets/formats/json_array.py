"""A JSON array of objects, or objects spread over several lines, read element by element in constant memory.

Elements are cut out by their brackets first and parsed one at a time, so one bad element costs itself alone.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

from datasets.formats.base import MAX_ROW_BYTES, BadLine, Blank, Cursor, FileFacts, Row
from datasets.formats.jsonl import row_or_fault
from datasets.formats.sniff import UTF8_MARK

_CHUNK = 256 * 1024
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\],"]', re.DOTALL)
_SPACES = re.compile(rb'("(?:[^"\\]|\\.)*+")|\s+', re.DOTALL)


def read(stream: BinaryIO, facts: FileFacts, cursor: Cursor) -> Iterator[Row | BadLine | Blank]:
    """Rows after the first `cursor.records` elements."""
    for index, piece in enumerate(_Scanner(stream, facts.encoding_mark)):
        if index < cursor.records:
            continue
        if isinstance(piece, BadLine):
            yield piece
            continue
        body, offset, line, column = piece
        found = row_or_fault(body, line, offset, offset + len(body))
        if isinstance(found, Row):
            if b"\n" in body or b"\r" in body:
                found.raw = _SPACES.sub(rb"\1", body).decode()
            yield found
        else:
            yield _placed(found, body, line, column)


def _placed(fault: BadLine, body: bytes, line: int, column: int) -> BadLine:
    """A fault counted from the element's start, moved to its line and column in the file."""
    before = body.decode("utf-8", "replace")[: fault.column - 1]
    fault.line = line + before.count("\n")
    fault.column = fault.column + column - 1 if "\n" not in before else fault.column - before.rfind("\n") - 1
    return fault


class _Scanner:
    """Iterates `(bytes, offset, line, column)` of each top-level element, and faults of the frame around them."""

    def __init__(self, stream: BinaryIO, has_mark: bool) -> None:
        self.stream = stream
        self.base = len(UTF8_MARK) if has_mark else 0
        stream.seek(self.base)
        self.buffer = b""
        self.line, self.line_start = 1, self.base

    def __iter__(self) -> Iterator[tuple[bytes, int, int, int] | BadLine]:
        position, depth, start, is_array, ended = 0, 0, 0, None, False
        while True:
            match = _TOKEN.search(self.buffer, position)
            if match is None or match.group() == b'"':  # nothing more, or a text cut by the end of the buffer
                scanned = len(self.buffer) if match is None else match.start()
                if not self._more(start):
                    break
                start, position = 0, scanned - start
                continue
            mark, position = match.group(), match.end()
            if is_array is None and mark in (b"[", b"{"):
                is_array = mark == b"["
                if is_array:
                    start = position
                    continue
            if mark in (b"{", b"["):
                depth += 1
            elif mark == b"]" and depth == 0 and is_array:
                yield from self._element(start, match.start())
                start, ended = position, True
                break
            elif mark in (b"}", b"]"):
                depth = max(0, depth - 1)
                if depth == 0 and is_array is False:
                    yield from self._element(start, position)
                    start = position
            elif mark == b"," and depth == 0:
                yield from self._element(start, match.start())
                start = position
        yield from self._end(start, bool(is_array), ended)

    def _more(self, start: int) -> bool:
        """Drop what was handed out, read the next chunk; False at the end of the file or beyond a row's size."""
        if len(self.buffer) - start > MAX_ROW_BYTES:
            return False
        chunk = self.stream.read(_CHUNK)
        if not chunk:
            return False
        self._count_lines(self.buffer[:start], self.base)
        self.buffer = self.buffer[start:] + chunk
        self.base += start
        return True

    def _count_lines(self, passed: bytes, offset: int) -> None:
        count = passed.count(b"\n")
        if count:
            self.line += count
            self.line_start = offset + passed.rfind(b"\n") + 1

    def _element(self, start: int, end: int) -> Iterator[tuple[bytes, int, int, int]]:
        piece = self.buffer[start:end]
        body = piece.strip()
        if not body:
            return
        lead = start + piece.find(body[:1])
        before = self.buffer[:lead]
        count = before.count(b"\n")
        line_start = self.base + before.rfind(b"\n") + 1 if count else self.line_start
        yield body, self.base + lead, self.line + count, self.base + lead - line_start + 1

    def _end(self, start: int, is_array: bool, ended: bool) -> Iterator[tuple[bytes, int, int, int] | BadLine]:
        rest = self.buffer[start:]
        if not ended and rest.strip() and len(rest) <= MAX_ROW_BYTES:
            yield from self._element(start, len(self.buffer))
        if is_array and not ended:
            line = self.line + self.buffer.count(b"\n")
            yield BadLine(
                line, 1, "array_not_closed", "The list is not closed: its last bracket ] is missing.",
                "The file may be cut. Fetch it again, or add the bracket.", self.base + len(self.buffer),
            )  # fmt: skip
        elif ended and (rest.strip() or self.stream.read(_CHUNK).strip()):
            line = self.line + self.buffer[:start].count(b"\n")
            yield BadLine(
                line, 1, "text_after_end", "There is more text after the end of the list.",
                "Keep one list per file.", self.base + len(self.buffer),
            )  # fmt: skip
