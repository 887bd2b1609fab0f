"""What a file really is, from its first bytes; its name only breaks ties."""

import csv
import json
from pathlib import PurePath

from datasets.formats.base import FileFacts, FileRefused
from datasets.formats.strict_json import SAVE_AS_UTF8, first_object_end

HEAD_BYTES = 256 * 1024
UTF8_MARK = b"\xef\xbb\xbf"
_UNPACK, _ROWS = "Unpack it and upload what is inside.", "Upload the rows as JSONL or CSV."
_FOREIGN = (
    (b"version https://git-lfs.github.com/spec/", "git_lfs_pointer", "This is a Git LFS pointer, not the data.",
     "Fetch the file first with `git lfs pull`, then upload it."),
    (b"\xff\xfe\x00\x00", "utf32", "This file is UTF-32.", SAVE_AS_UTF8),
    (b"\x00\x00\xfe\xff", "utf32", "This file is UTF-32.", SAVE_AS_UTF8),
    (b"\xff\xfe", "utf16", "This file is UTF-16.", SAVE_AS_UTF8),
    (b"\xfe\xff", "utf16", "This file is UTF-16.", SAVE_AS_UTF8),
    (b"\x1f\x8b", "gzip", "This file is compressed with gzip.", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "zstd", "This file is compressed with Zstandard.", _UNPACK),
    (b"PK\x03\x04", "zip", "This is a ZIP archive or an office document.",
     "Unpack it, or save the sheet as CSV, and upload that."),
    (b"\xd0\xcf\x11\xe0", "office", "This is an old office document.", "Save the sheet as CSV and upload that."),
    (b"%PDF", "pdf", "This is a PDF document.", _ROWS),
    (b"SQLite format 3\x00", "sqlite", "This is a SQLite database.", "Export the table as CSV and upload that."),
    (b"ARROW1", "arrow", "This is an Arrow IPC file.", "Save it as Parquet and upload that."),
    (b"BZh", "bzip2", "This file is compressed with bzip2.", _UNPACK),
    (b"\xfd7zXZ\x00", "xz", "This file is compressed with xz.", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "7z", "This is a 7z archive.", _UNPACK),
    (b"Rar!", "rar", "This is a RAR archive.", _UNPACK),
    (b"\x89PNG", "image", "This is a picture.", _ROWS),
    (b"\xff\xd8\xff", "image", "This is a picture.", _ROWS),
    (b"\x93NUMPY", "numpy", "This is a NumPy array.", _ROWS),
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
    _refuse_bytes(text)
    _refuse_markup(stripped)
    facts.line_end = _line_end(text)
    if facts.line_end == "\r":
        facts.notes.append("cr_line_ends")
        text, stripped = text.replace(b"\r", b"\n"), stripped.replace(b"\r", b"\n")
    suffix = PurePath(filename).suffix.lower()
    if suffix in (".csv", ".tsv", ".tab"):
        facts.format, facts.delimiter = "delimited", _delimiter(text, suffix)
    elif stripped.startswith(b"["):
        facts.format = "json_array"
    elif stripped.startswith(b"{"):
        facts.format = _format_of_objects(stripped, suffix)
    elif suffix not in (".jsonl", ".ndjson", ".json") and _looks_delimited(text):
        facts.format, facts.delimiter = "delimited", _delimiter(text, suffix)
    return facts


def _format_of_objects(stripped: bytes, suffix: str) -> str:
    """Objects one a line, or spread over several: those are found by their braces, as in an array."""
    first_line, newline, _ = stripped.partition(b"\n")
    if suffix != ".json":
        return "json_array" if first_line.strip() == b"{" else "jsonl"
    end = first_object_end(stripped)
    if end is None:
        if newline and len(stripped) >= HEAD_BYTES and not first_line.rstrip().endswith(b"}"):
            raise _one_object("")
        return "jsonl"
    if not stripped[end:].strip() and (name := _list_inside(stripped[:end])):
        raise _one_object(name)
    return "json_array" if b"\n" in stripped[:end] else "jsonl"


def _one_object(name: str) -> FileRefused:
    if name:
        message = f"The file is one JSON object, with its rows under {name!r}."
        return FileRefused("one_object", message, f"Upload the list under {name!r} alone.")
    return FileRefused(
        "one_object",
        "The file is one JSON object, not a list of rows.",
        "Write one object per line (JSONL), or a list of objects.",
    )


def _list_inside(text: bytes) -> str:
    """The name under which an object that is no row itself holds a list of rows."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if "messages" in value or "item" in value:
        return ""
    lists = (name for name, inner in value.items() if type(inner) is list and inner and type(inner[0]) is dict)
    return next(lists, "")


def _refuse_bytes(text: bytes) -> None:
    """UTF-16 without a mark has a NUL beside each plain letter, always on the same side; other NULs in numbers are no text."""
    sample = text[:4096]
    sides = [sample[place::2].count(0) / max(len(sample) // 2, 1) for place in (0, 1)]
    if max(sides) > 0.3 and min(sides) < 0.05:
        raise FileRefused("utf16", "This file seems to be UTF-16 without a mark.", SAVE_AS_UTF8)
    if text[257:262] == b"ustar":
        raise FileRefused("tar", "This is a tar archive.", _UNPACK)
    controls = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    if controls * 10 > len(sample) and sample[:1] not in (b"{", b"["):
        raise FileRefused("binary", "This file is no text.", _ROWS)


def _refuse_markup(stripped: bytes) -> None:
    start = stripped[:64].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml")):
        raise FileRefused(
            "web_page", "This is a web page, not data.", "Download the file itself: a log-in page was saved instead."
        )


def _line_end(text: bytes) -> str:
    first = text.find(b"\n")
    if first < 0:
        return "\r" if b"\r" in text.strip() and not text.lstrip().startswith(b"[") else "\n"
    return "\r\n" if first > 0 and text[first - 1 : first] == b"\r" else "\n"


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
