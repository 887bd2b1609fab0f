"""What every format module speaks: rows, bad lines, refusals of a whole file. Portable: no Django in this package."""

from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

MAX_ROW_BYTES = 32 * 1024 * 1024
KEPT_TEXT = 64 * 1024


@dataclass(slots=True)
class Row:
    """One good line: its text as it came, its values, where the next one begins, and a split told beside it."""

    line: int
    raw: str
    value: dict[str, Any]
    canonical: bytes
    end: int
    notes: tuple[str, ...] = ()
    split: str = ""


@dataclass(slots=True)
class BadLine:
    """One line that is not a row, with its text, bad bytes written as escapes."""

    line: int
    column: int
    code: str
    message: str
    fix: str
    end: int
    text: str = ""
    is_cut: bool = False

    def holding(self, body: bytes | str) -> "BadLine":
        """Keep the line's text, at most KEPT_TEXT of it, in a form that any database takes."""
        text = body[:KEPT_TEXT].decode("utf-8", "backslashreplace") if isinstance(body, bytes) else body[:KEPT_TEXT]
        self.text = text.replace("\x00", "\u2400").encode("utf-8", "backslashreplace").decode()
        self.is_cut = len(body) > KEPT_TEXT
        return self


@dataclass(slots=True)
class Blank:
    """Blank lines are skipped and counted."""

    line: int
    end: int


class FileRefused(Exception):
    """The file as a whole is not what its name says; `message` names what it is."""

    def __init__(self, code: str, message: str, fix: str, *, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix
        self.line = line
        self.column = column


@dataclass(slots=True)
class Cursor:
    """Where to go on: bytes and lines read for text that can be sought, records for the rest."""

    offset: int = 0
    line: int = 0
    records: int = 0


@dataclass(slots=True)
class FileFacts:
    """What a file is, found from its first bytes; what an export needs to give the same bytes back."""

    format: str
    encoding_mark: bool = False
    line_end: str = "\n"
    delimiter: str = ""
    encoding: str = ""
    columns: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Reader(Protocol):
    """`read(stream, facts, cursor)` yields Row, BadLine or Blank, in file order, in constant memory."""

    def __call__(self, stream: Any, facts: FileFacts, cursor: Cursor) -> Any: ...


def pass_over(stream: BinaryIO) -> int:
    """Read on to the end of a line that is too long to be held; answers its bytes."""
    passed = 0
    while piece := stream.readline(1024 * 1024):
        passed += len(piece)
        if piece.endswith(b"\n"):
            break
    return passed
