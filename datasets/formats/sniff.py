"""What a file really is, from its first bytes; its name only breaks ties."""

import csv
from pathlib import PurePath

from datasets.formats.base import FileFacts, FileRefused

HEAD_BYTES = 256 * 1024
UTF8_MARK = b"\xef\xbb\xbf"
_UTF8_FIX = "Save it as UTF-8 and upload it again."
_FOREIGN = (
    (b"version https://git-lfs.github.com/spec/", "git_lfs_pointer", "This is a Git LFS pointer, not the data.",
     "Fetch the file first with `git lfs pull`, then upload it."),
    (b"\xff\xfe\x00\x00", "utf32", "This file is UTF-32.", _UTF8_FIX),
    (b"\x00\x00\xfe\xff", "utf32", "This file is UTF-32.", _UTF8_FIX),
    (b"\xff\xfe", "utf16", "This file is UTF-16.", _UTF8_FIX),
    (b"\xfe\xff", "utf16", "This file is UTF-16.", _UTF8_FIX),
    (b"\x1f\x8b", "gzip", "This file is compressed with gzip.", "Unpack it and upload what is inside."),
    (b"\x28\xb5\x2f\xfd", "zstd", "This file is compressed with Zstandard.", "Unpack it and upload what is inside."),
    (b"PK\x03\x04", "zip", "This is a ZIP archive or an office document.",
     "Unpack it, or save the sheet as CSV, and upload that."),
    (b"\xd0\xcf\x11\xe0", "office", "This is an old office document.", "Save the sheet as CSV and upload that."),
    (b"%PDF", "pdf", "This is a PDF document.", "Upload the rows as JSONL or CSV."),
    (b"SQLite format 3\x00", "sqlite", "This is a SQLite database.", "Export the table as CSV and upload that."),
    (b"ARROW1", "arrow", "This is an Arrow IPC file.", "Save it as Parquet and upload that."),
)  # fmt: skip


def sniff(head: bytes, filename: str) -> FileFacts:
    """Name the format, or refuse the file by what it is. `head` is the first HEAD_BYTES, or all of a shorter file."""
    if head.startswith(b"PAR1"):
        return FileFacts(format="parquet")
    for magic, code, message, fix in _FOREIGN:
        if head.startswith(magic):
            raise FileRefused(code, message, fix)
    facts = FileFacts(format="jsonl", encoding_mark=head.startswith(UTF8_MARK))
    text = head.removeprefix(UTF8_MARK)
    stripped = text.lstrip()
    if not stripped:
        raise FileRefused("empty_file", "The file is empty.", "Choose a file with at least one row.")
    _refuse_wide(text)
    _refuse_markup(stripped)
    facts.line_end = _line_end(text)
    if not stripped.startswith(b"[") and b"\r" in text and b"\n" not in text:
        raise FileRefused(
            "cr_line_ends", "The lines end in a bare carriage return (old Mac style).", "Save it with LF line ends."
        )
    suffix = PurePath(filename).suffix.lower()
    if suffix in (".csv", ".tsv", ".tab"):
        facts.format, facts.delimiter = "delimited", _delimiter(text, suffix)
    elif stripped.startswith(b"["):
        facts.format = "json_array"
    elif stripped.startswith(b"{"):
        facts.format = "jsonl" if suffix != ".json" or _first_line_closes(stripped) else "json_object"
    elif suffix not in (".jsonl", ".ndjson", ".json") and _looks_delimited(text):
        facts.format, facts.delimiter = "delimited", _delimiter(text, suffix)
    if facts.format == "json_object":
        raise FileRefused(
            "one_object",
            "The file is one JSON object, not a list of rows.",
            "Write one object per line (JSONL), or a list of objects.",
        )
    if facts.format == "jsonl" and stripped.partition(b"\n")[0].strip() == b"{":
        facts.format = "json_array"  # objects spread over several lines: found by their braces, as in an array
    return facts


def _refuse_wide(text: bytes) -> None:
    sample = text[:4096]
    if sample.count(0) * 3 > len(sample):
        raise FileRefused("utf16", "This file seems to be UTF-16 without a mark.", _UTF8_FIX)


def _refuse_markup(stripped: bytes) -> None:
    start = stripped[:64].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml")):
        raise FileRefused(
            "web_page", "This is a web page, not data.", "Download the file itself: a log-in page was saved instead."
        )


def _line_end(text: bytes) -> str:
    first = text.find(b"\n")
    return "\r\n" if first > 0 and text[first - 1 : first] == b"\r" else "\n"


def _first_line_closes(stripped: bytes) -> bool:
    first, newline, _ = stripped.partition(b"\n")
    return first.rstrip().endswith(b"}") or (not newline and len(stripped) >= HEAD_BYTES)


def _looks_delimited(text: bytes) -> bool:
    first = text.partition(b"\n")[0]
    return any(mark in first for mark in (b",", b";", b"\t"))


def _delimiter(text: bytes, suffix: str) -> str:
    """The mark that cuts the header into most cells; a comma when none does."""
    if suffix in (".tsv", ".tab"):
        return "\t"
    header = text.partition(b"\n")[0].decode("utf-8", "replace")
    counts = {mark: len(next(csv.reader([header], delimiter=mark), [])) for mark in (",", ";", "\t", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] > 1 else ","
