"""Files as documents for the search tool: text, Markdown, JSON, JSON Lines, CSV. Portable.

Long texts are cut into passages, because a search answers with passages: Markdown at its headings, other text at empty
lines. Each passage keeps its file's name and its number as its id.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

MAX_BYTES = 20_000_000
MAX_DOCUMENTS = 20_000
PASSAGE = 2_000  # characters that a passage of plain text may grow to
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
_TEXT_KEYS = ("text", "content", "body")

Document = dict[str, str]


class CorpusError(Exception):
    """A file that cannot be read as documents; the text names it and says how to mend it."""


def documents_of(files: Iterable[tuple[str, bytes]]) -> list[Document]:
    """Every file's documents in order, ids made unique. Raises CorpusError."""
    found: list[Document] = []
    taken: set[str] = set()
    size = 0
    for name, data in files:
        size += len(data)
        if size > MAX_BYTES:
            raise CorpusError(
                f"{name}: the files are larger than {MAX_BYTES // 1_000_000} MB together. Leave some out."
            )
        for raw in _documents(name, _text(name, data)):
            document = {key: _clean(value) for key, value in raw.items()}
            if not document["text"].strip():
                continue
            document["id"] = _free(document["id"], taken)
            found.append(document)
        if len(found) > MAX_DOCUMENTS:
            raise CorpusError(f"{name}: that makes more than {MAX_DOCUMENTS:,} documents. Leave some out.")
    if not found:
        raise CorpusError("The files hold no text.")
    return found


def _text(name: str, data: bytes) -> str:
    if data.startswith((b"%PDF", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise CorpusError(f"{name} is a PDF or office file. Save it as plain text or Markdown first.")
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        raise CorpusError(f"{name} is not UTF-8 text (byte {exc.start + 1}). Save it as UTF-8.") from exc


def _documents(name: str, text: str) -> Iterator[Document]:
    ending = name.rpartition(".")[2].lower()
    if ending in ("jsonl", "ndjson"):
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        rows = [(f"line {number}", _json(f"{name}, line {number}", line)) for number, line in lines]
        return _from_rows(name, rows)
    if ending == "json":
        value = _json(name, text)
        return _from_rows(
            name, [(f"entry {n}", row) for n, row in enumerate(value, 1)] if isinstance(value, list) else [("", value)]
        )
    if ending in ("csv", "tsv"):
        reader = csv.DictReader(io.StringIO(text), delimiter="\t" if ending == "tsv" else ",")
        return _from_rows(name, [(f"line {n}", dict(row)) for n, row in enumerate(reader, 2)])
    return _passages(name, text, is_markdown=ending in ("md", "markdown"))


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise CorpusError(f"{where} is not JSON: {exc}.") from exc


def _from_rows(name: str, rows: list[tuple[str, Any]]) -> Iterator[Document]:
    for where, row in rows:
        key = next((key for key in _TEXT_KEYS if isinstance(row, dict) and isinstance(row.get(key), str)), None)
        if key is None:
            raise CorpusError(f"{name}, {where}: there is no text. Give each document a field text (and id, title).")
        yield {
            "id": str(row.get("id") or f"{name} {where}".strip()),
            "title": str(row.get("title") or ""),
            "text": row[key],
        }


def _passages(name: str, text: str, *, is_markdown: bool) -> Iterator[Document]:
    title, kept, count = "", [], 0
    parts = text.split("\n") if is_markdown else re.split(r"\n\s*\n", text)
    for part in [*parts, None]:
        heading = _HEADING.match(part) if is_markdown and part is not None else None
        is_full = not is_markdown and part is not None and sum(map(len, kept)) + len(part) > PASSAGE
        if (part is None or heading or is_full) and "".join(kept).strip():
            count += 1
            body = ("\n" if is_markdown else "\n\n").join(kept).strip()
            yield {"id": f"{name}#{count}", "title": title or name, "text": body}
            kept = []
        if heading:
            title, kept = heading[1], []
        elif part is not None:
            kept.append(part)


def _clean(text: str) -> str:
    """As a database can keep it: no NUL, no half characters."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _free(wanted: str, taken: set[str]) -> str:
    found, number = wanted[:200], 2
    while found in taken:
        found, number = f"{wanted[:190]} ({number})", number + 1
    taken.add(found)
    return found
