"""From bytes to JSON documents, one by one, with the line each began on. Portable: standard library only."""

import gzip
import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jobs.rollouts.imports.types import Flag, Unreadable

#: What a compressed file may come to.
MOST_BYTES = 2_000_000_000


@dataclass
class Document:
    """One JSON value of the file."""

    value: Any
    line: int


@dataclass
class Source:
    """A file: JSON documents, or bytes that are no text."""

    documents: list[Document] = field(default_factory=list)
    binary: bytes = b""
    flags: list[Flag] = field(default_factory=list)

    @property
    def first(self) -> Any:
        return self.documents[0].value if self.documents else None


def read_source(content: bytes) -> Source:
    """JSON, JSON array, JSON lines, any of them gzipped; anything else is left as bytes."""
    if content[:2] == b"\x1f\x8b":
        content = _unzipped(content)
    if not content.strip():
        raise Unreadable("The file is empty.")
    if content.startswith(b"version https://git-lfs"):
        raise Unreadable("This is a Git LFS pointer, not the data. Fetch the file first (git lfs pull).")
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Unreadable("The file is UTF-16. Save it as UTF-8.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        if b"\x00" in content[:4000] or content[:1] in b"\x0a\x12":
            return Source(binary=content)
        raise Unreadable(f"The file is not valid UTF-8: byte {exc.start} cannot be read.") from exc
    return _documents(text, content)


def _unzipped(content: bytes) -> bytes:
    try:
        plain = gzip.decompress(content)
    except (OSError, EOFError) as exc:
        raise Unreadable("The gzip file is damaged or cut off.") from exc
    if len(plain) > MOST_BYTES:
        raise Unreadable("The file unpacks to more than 2 GB. Split it.")
    return plain


def _documents(text: str, content: bytes) -> Source:
    try:
        whole = json.loads(text, parse_constant=_none)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        return Source([Document(value, 1) for value in whole])
    if isinstance(whole, dict):
        return Source([Document(whole, 1)])
    return _lines(text, content)


def _lines(text: str, content: bytes) -> Source:
    source = Source()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            source.documents.append(Document(json.loads(line, parse_constant=_none), number))
        except (ValueError, RecursionError) as exc:
            column = getattr(exc, "colno", 1)
            source.flags.append(Flag("bad_line", f"line {number}, column {column}", f"Not JSON, left out: {exc}."))
    if not source.documents:
        if b"\x00" in content[:4000] or content[:1] in b"\x0a\x12":
            return Source(binary=content)
        raise Unreadable("The file holds no JSON: neither one document nor one a line.")
    return source


def _none(name: str) -> None:
    """NaN and infinity are no JSON numbers; they read as nothing."""


def number(value: Any) -> float | None:
    """A finite number, also when it was written as text; None otherwise."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        result = float(value)
    except (TypeError, ValueError):
        return None
    return result if math.isfinite(result) else None


def whole(value: Any) -> int:
    """A count; 0 when there is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, value)
    result = number(value)
    return max(0, int(result)) if result is not None else 0


def text_of(value: Any) -> str:
    """Message content as text: strings, parts of text, and anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [_part(part) for part in value]
        return "\n".join(part for part in parts if part)
    return json.dumps(value, ensure_ascii=False)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        for key in ("text", "content", "output", "refusal"):
            if isinstance(part.get(key), str):
                return part[key]
    return json.dumps(part, ensure_ascii=False)


@dataclass(frozen=True)
class Moment:
    """An instant, and whether its zone had to be guessed."""

    seconds: float
    zone_missing: bool = False


def moment(value: Any) -> Moment | None:
    """Unix seconds or nanoseconds, or ISO 8601; without a zone it is read as UTC and said so."""
    plain = number(value)
    if plain is not None:
        for limit, unit in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
            if plain >= limit:
                return Moment(plain / unit)
        return Moment(plain)
    if not isinstance(value, str) or not value.strip():
        return None
    try:
        read = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    if read.tzinfo is None:
        return Moment(read.replace(tzinfo=UTC).timestamp(), zone_missing=True)
    return Moment(read.timestamp())
