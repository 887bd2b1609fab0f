"""Strict JSON, one value from one line: exact columns, no NaN, no value changed in silence.

The quick path is orjson. What orjson cannot hold exactly (integers above 64 bits, lone surrogates), refuses, or
hides (doubled keys) goes the careful way through the standard library, which also says where the fault is.
"""

import json
import re
from typing import Any

import orjson

_DIGITS_ONLY = bytes(48 if 48 <= code <= 57 else 32 for code in range(256))
_LONG_NUMBER = b"0" * 17
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')
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
        raise BadJson(
            "invalid_json", _column(exc), f"Not valid JSON: {exc.msg}.", "Correct the text at this column."
        ) from exc
    except RecursionError as exc:
        raise BadJson("too_deep", 1, "Lists and objects are nested too deep.", "Flatten this row.") from exc
    except ValueError as exc:  # an integer of more than 4,300 digits
        raise BadJson(
            "number_too_long", 1, "A number has more digits than can be read.", "Write it as a text, in quotes."
        ) from exc
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


def _column(exc: json.JSONDecodeError) -> int:
    return exc.pos + 1


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
    guess = guess_encoding(line)
    seems = f" The line reads as {guess}." if guess else ""
    return BadJson(
        "not_utf8",
        column,
        f"Not valid UTF-8: byte 0x{line[exc.start]:02X} at byte {{byte}} of the file.{seems}",
        "Save the file as UTF-8 and upload it again.",
    )


def guess_encoding(line: bytes) -> str:
    """A name for bytes that are not UTF-8, when one is likely; else the empty text."""
    for name, codec, first, last in (
        ("GBK (Chinese)", "gb18030", "\u4e00", "\u9fff"),
        ("Shift JIS (Japanese)", "shift_jis", "\u3040", "\u30ff"),
        ("EUC-KR (Korean)", "euc_kr", "\uac00", "\ud7a3"),
    ):
        try:
            text = line.decode(codec)
        except UnicodeDecodeError:
            continue
        strange = [char for char in text if ord(char) > 127]
        if strange and sum(first <= char <= last for char in strange) * 2 > len(strange):
            return name
    return "Windows-1252 or Latin-1" if all(byte not in line for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)) else ""


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
