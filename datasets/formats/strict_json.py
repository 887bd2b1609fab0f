"""Strict JSON, one value from one line: exact columns, no NaN, no value changed in silence.

The quick path is orjson. What orjson cannot hold exactly (integers above 64 bits, lone surrogates), refuses, or
hides (doubled keys) goes the careful way through the standard library, which also says where the fault is.
"""

import json
import re
from typing import Any

import orjson

from datasets.formats import encodings

MAX_DEPTH = 200
SAVE_AS_UTF8 = "Say which encoding it is in (the page shows how it would read), or save it as UTF-8."
_DIGITS_ONLY = bytes(48 if 48 <= code <= 57 else 32 for code in range(256))
_LONG_NUMBER = b"0" * 17
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"|(-?Infinity|NaN)')
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class BadJson(Exception):
    """Why a text is no JSON value; the column counts characters from 1."""

    def __init__(self, code: str, column: int, message: str, fix: str) -> None:
        super().__init__(message)
        self.code, self.column, self.message, self.fix = code, column, message, fix


def parse(line: bytes) -> tuple[Any, str, bytes, tuple[str, ...]]:
    """The value, its text, its canonical bytes (sorted keys, no spaces) and notes such as `doubled_key`."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _parse_carefully(line)
    if _LONG_NUMBER in line.translate(_DIGITS_ONLY):
        return _parse_carefully(line)
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _too_deep(line)
    canonical = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if line.count(b'"') != canonical.count(b'"'):  # a doubled key lost its quotes, or a quote was written \u0022
        return _parse_carefully(line)
    return value, line.decode(), canonical, (("nul_character",) if b"\\u0000" in line else ())


def canonical_bytes(value: Any) -> bytes:
    """The same bytes for the same value, however it was written."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer above 64 bits or a lone surrogate
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")


def dumps(value: Any) -> str:
    """Compact JSON text for a row we made ourselves; every digit and character kept, lone surrogates as escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return json.dumps(value, separators=(",", ":"), allow_nan=False) if _SURROGATE.search(text) else text


def _parse_carefully(line: bytes) -> tuple[Any, str, bytes, tuple[str, ...]]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _bad_encoding(line, exc) from exc
    notes: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) != len(found) and "doubled_key" not in notes:
            notes.append("doubled_key")
        return made

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse_constant, parse_float=_finite)
    except _NotANumber as exc:
        raise _bad_number(text, str(exc)) from exc
    except json.JSONDecodeError as exc:
        raise _bad_text(text, exc) from exc
    except RecursionError as exc:
        raise _too_deep(line) from exc
    except ValueError as exc:  # an integer of more than 4,300 digits
        found = _LONG_INTEGER.search(text)
        raise BadJson(
            "number_too_long", found.start() + 1 if found else 1, "A number has more digits than can be read.",
            "Write it as a text, in quotes.",
        ) from exc  # fmt: skip
    if _depth(value) > MAX_DEPTH:
        raise _too_deep(line)
    if "\\u0000" in text and _holds(value, "\x00"):
        notes.append("nul_character")
    if _escaped_surrogate(text) and _has_surrogate(value):
        notes.append("lone_surrogate")
    return value, text, canonical_bytes(value), tuple(notes)


class _NotANumber(Exception):
    pass


def _refuse_constant(name: str) -> Any:
    raise _NotANumber(name)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _NotANumber(text)
    return number


def _bad_text(text: str, exc: json.JSONDecodeError) -> BadJson:
    """The fault in plain words, with the parser's own behind them for whoever looks them up."""
    column = exc.pos + 1
    if text.startswith("\ufeff"):
        return BadJson(
            "stray_mark", 1, "A byte order mark stands before the row; two files were joined, it seems.",
            "Take the mark away.",
        )  # fmt: skip
    if exc.msg == "Extra data" and text[exc.pos :].strip() == ",":
        return BadJson(
            "comma_at_end", column, "A comma stands behind the row, as in a list.", "Take the comma at its end away."
        )
    said, fix = next((words for start, words in _PLAIN.items() if exc.msg.startswith(start)), ("", ""))
    message = f"Not valid JSON: {said} ({exc.msg})." if said else f"Not valid JSON: {exc.msg}."
    return BadJson("invalid_json", column, message, fix or "Correct the text at this column.")


_PLAIN = {
    "Expecting value": ("a value is missing here, or is no text in quotes, number, list or object",
                        "Write the value; put texts in double quotes."),
    "Expecting property name": ("a name in double quotes should stand here",
                                'Use double quotes ("), and no comma before a closing bracket.'),
    "Expecting ',' delimiter": ("a comma or a closing bracket is missing here, or the line is cut",
                                "Add the comma or bracket; of a cut line, fetch the rest."),
    "Expecting ':' delimiter": ("a colon between name and value is missing here", "Add the colon."),
    "Unterminated string": ("a text begins here and has no closing quote",
                            "Close it, and write line ends inside a text as \\n."),
    "Invalid control character": ("a raw tab, line end or other control character stands inside a text",
                                  "Write it as \\t, \\n or \\u0000."),
    "Invalid \\": ("a backslash is followed by something that is no escape", "Double the backslash, or take it away."),
    "Illegal trailing comma": ("a comma stands before a closing bracket", "Take the comma away."),
    "Extra data": ("the row has ended, but the line goes on", "Put each row on a line of its own."),
}  # fmt: skip
_LONG_INTEGER = re.compile(r"(?<![\w.])-?[0-9]{4000,}")


def _too_deep(line: bytes) -> BadJson:
    text, depth = line.decode("utf-8", "replace"), 0
    for match in _BRACKETS.finditer(text):
        mark = match.group(1)
        depth += (mark in "[{") - (mark in "]}") if mark else 0
        if depth > MAX_DEPTH:
            break
    return BadJson(
        "too_deep", match.start() + 1, f"Lists and objects are nested more than {MAX_DEPTH} deep.", "Flatten this row."
    )


def first_object_end(text: bytes) -> int | None:
    """Where the first list or object of the text ends; None when it does not."""
    depth = 0
    for match in _BRACKETS_IN_BYTES.finditer(text):
        if mark := match.group(1):
            depth += 1 if mark in b"[{" else -1
            if depth == 0:
                return match.end()
    return None


_BRACKETS_IN_BYTES = re.compile(rb'"(?:[^"\\]|\\.)*+"|([\[\]{}])', re.DOTALL)
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[\]{}])')


def _depth(value: Any) -> int:
    """How deep lists and objects are nested. Level by level, because recursion ends before the data does."""
    depth, level = 0, [value]
    while level := [
        inner
        for each in level
        if type(each) in (dict, list)
        for inner in (each.values() if type(each) is dict else each)
    ]:
        depth += 1
        if depth > MAX_DEPTH:
            break
    return depth


def _bad_number(text: str, name: str) -> BadJson:
    if name not in ("NaN", "Infinity", "-Infinity"):
        return BadJson(
            "number_too_large",
            max(text.find(name), 0) + 1,
            f"{name[:40]} is larger than any number that can be stored.",
            "Write it as a text, in quotes.",
        )
    column = next((match.start(1) + 1 for match in _TOKENS.finditer(text) if match.group(1)), 1)
    return BadJson("nan_literal", column, f"{name} is not JSON.", "Write null, or leave the field out.")


def _bad_encoding(line: bytes, exc: UnicodeDecodeError) -> BadJson:
    column = len(line[: exc.start].decode("utf-8")) + 1
    name = encodings.guess(line)
    seems = f" The line reads as {name}." if name else ""
    return BadJson(
        "not_utf8",
        column,
        f"Not valid UTF-8: byte 0x{line[exc.start]:02X} at byte {{byte}} of the file.{seems}",
        SAVE_AS_UTF8,
    )


def _escaped_surrogate(text: str) -> bool:
    return "\\ud" in text or "\\uD" in text


def _holds(value: Any, char: str) -> bool:
    if isinstance(value, str):
        return char in value
    if isinstance(value, dict):
        return any(char in key or _holds(inner, char) for key, inner in value.items())
    return isinstance(value, list) and any(_holds(inner, char) for inner in value)


def _has_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return bool(_SURROGATE.search(value))
    if isinstance(value, dict):
        return any(_has_surrogate(key) or _has_surrogate(inner) for key, inner in value.items())
    return isinstance(value, list) and any(_has_surrogate(inner) for inner in value)


def showable(value: Any) -> Any:
    """The value with what no database or page can hold made visible: NUL as ␀, a lone surrogate as \ufffd."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value).replace("\x00", "\u2400")
    if isinstance(value, dict):
        return {showable(key): showable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [showable(inner) for inner in value]
    return value


def loads_showable(text: str) -> Any:
    """Parse a stored row for use elsewhere. Digits are kept; NUL and lone surrogates become visible signs."""
    value = json.loads(text)
    return showable(value) if "\\u0000" in text or _escaped_surrogate(text) else value
