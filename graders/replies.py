"""Reading what a judge wrote: a mark or a label. Portable: standard library only.

Tolerant in form and strict in substance. Form: the documented JSON (bare, fenced, or standing before or after prose),
a bare number, lines such as `Score: 4`, one `[[4]]`; what a reasoning model thinks before its answer is left out.
Substance: never the first number met, never cut to the range, never one of two different marks, and no other scale:
`4/5` counts where 5 is the top of the range, `80 %` never. Every reading is linear in the length of the reply, because
a judge that repeats blanks up to its limit must not hold a worker.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graders.failures import Ungraded

MAX_LINE = 300
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_OUT_OF = rf"(?: ?\(? ?(?:/|out of) ?(?P<of>{_NUMBER}) ?\)?)?"
_BARE = re.compile(rf"(?P<mark>{_NUMBER}){_OUT_OF}\.?", re.ASCII)
_LINE = re.compile(
    rf"(?:(?:final|overall|total|my) )?(?:score|result|rating|grade|mark)[ *]*[:=：][ *]*(?P<mark>{_NUMBER}){_OUT_OF}[ *.]*",
    re.ASCII | re.I,
)
_BRACKETS = re.compile(rf"\[\[ ?({_NUMBER}) ?\]\]", re.ASCII)
_ERROR = re.compile(r"(?:\[\s?error\s?\]|error(?::| code\b| \d))", re.I)
_THINKING = ("think", "thinking", "reasoning")


@dataclass(frozen=True)
class Mark:
    """A judge's number and its reason in words."""

    value: float
    reason: str = ""


def read_mark(text: str, low: float, high: float, clean: Callable[[str], str] = str) -> Mark:
    """The mark in a judge's reply; Ungraded when there is none, or when it lies outside the range. The words that are
    kept of the reply are `clean`ed before they are cut, so that no half of a secret is left at the cut."""
    said = _answer(text)
    mark = _structured(said, high) or _written(said, high)
    if mark is None:
        raise _unreadable(said, "No mark can be read from the judge's reply", clean)
    if not low <= mark.value <= high:
        raise Ungraded(
            "model_grader_parse_error",
            f"The judge's mark {mark.value:.10g} is out of range {low:g} to {high:g}; it is not cut to fit.",
        )
    return Mark(mark.value, clean(mark.reason)[:600])


def read_label(text: str, labels: list[str], clean: Callable[[str], str] = str) -> str:
    """The label in a reply: `{"label": …}` or the bare label, in any case; never a label found inside prose."""
    said = _answer(text)
    value = read_json(said)
    if isinstance(value, dict):
        value = value.get("label", value.get("result"))
    bare = (value if isinstance(value, str) else said if value is None else "").strip()
    if bare[:6].casefold() == "label:":
        bare = bare[6:]
    bare = bare.strip().strip("\"'*.`").strip()
    for label in labels:
        if bare == label or bare.casefold() == label.casefold():
            return label
    raise _unreadable(said, "The judge's reply is none of the labels", clean)


def read_json(text: str) -> Any:
    """The JSON value of a reply, None when it is none. An object may stand fenced, or before or after prose."""
    said = text.strip()
    for candidate in (said, _fenced(said)):
        value = _loaded(candidate)
        if value is not None:
            return value
    if said.startswith("{"):
        return _first_object(said, must_end=False)
    start = said.find("\n{")
    return _first_object(said[start + 1 :], must_end=True) if start > 0 and "{" not in said[:start] else None


def _answer(text: str) -> str:
    """The reply without the thoughts that a reasoning model writes before it; thoughts that never end leave nothing."""
    said = text.strip().removeprefix("\ufeff").strip()
    for tag in _THINKING:
        opening, closing = f"<{tag}>", f"</{tag}>"
        if said.startswith(opening):
            return said.partition(closing)[2].strip()
        if said.count(closing) == 1 and opening not in said:  # the chat template wrote the opening tag
            return said.partition(closing)[2].strip()
    return said


def _unreadable(said: str, what: str, clean: Callable[[str], str]) -> Ungraded:
    """An error that came in place of an answer is the server's, not the judge's."""
    cleaned = clean(said)
    shown = cleaned[:200]
    value = _loaded(said)
    if _ERROR.match(said) or (isinstance(value, dict) and "error" in value):
        return Ungraded(
            "model_grader_server_error",
            f"The judge answered with an error: “{shown}”.",
            model_grader_server_error_details=cleaned[:500],
        )
    return Ungraded("model_grader_parse_error", f"{what}: “{shown}”.")


def _structured(said: str, high: float) -> Mark | None:
    value = read_json(said)
    if isinstance(value, str):
        return _from_text(value, high)
    if not isinstance(value, dict):
        return None
    result = value.get("result")
    if isinstance(result, str):
        mark = _from_text(result, high)
    elif isinstance(result, int | float) and not isinstance(result, bool):
        mark = _finite(result)
    else:
        mark = None
    return mark and Mark(mark.value, _conclusions(value.get("steps")))


def _conclusions(steps: Any) -> str:
    said = [
        str(step.get("conclusion") or step.get("description") or "")
        for step in (steps if isinstance(steps, list) else [])
        if isinstance(step, dict)
    ]
    return " ".join(filter(None, said))


def _from_text(text: str, high: float) -> Mark | None:
    found = _BARE.fullmatch(text.strip().strip("*`_")) if len(text) <= MAX_LINE else None
    return _counted(found, high) if found else None


def _written(said: str, high: float) -> Mark | None:
    if said.startswith(("{", "[")) and not said.startswith("[["):
        return None
    if mark := _from_text(said, high):
        return mark
    lines = said.splitlines()
    found = [_LINE.fullmatch(line.strip(" \t*#_>")) if len(line) <= MAX_LINE else None for line in lines]
    marks = [_counted(match, high) for match in found if match]
    if not marks:
        marks = [_finite(number) for number in _BRACKETS.findall(said)]
        marks = marks if len(marks) == 1 else []
        said = _BRACKETS.sub("", said)
    else:
        said = "\n".join(line for line, match in zip(lines, found, strict=True) if not match)
    if not marks or any(mark is None or mark != marks[0] for mark in marks):
        return None
    return marks[0] and Mark(marks[0].value, said.strip())


def _counted(match: re.Match[str], high: float) -> Mark | None:
    """The mark of a match; `4/5` only where the range ends at 5."""
    return None if match["of"] and float(match["of"]) != high else _finite(match["mark"])


def _finite(number: float | str) -> Mark | None:
    try:
        value = float(number) + 0.0  # never -0.0
    except OverflowError:
        return None
    return Mark(value) if math.isfinite(value) else None


# JSON without guesses: NaN and Infinity are none, and of a key said twice neither counts.


def _refuse(word: str) -> None:
    raise ValueError(word)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is said twice")
    return found


_READER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_pairs)


def _loaded(text: str) -> Any:
    try:
        return _READER.decode(text) if text else None
    except (ValueError, RecursionError):
        return None


def _fenced(said: str) -> str:
    """What stands in the only code fence, if the reply begins or ends with it."""
    parts = said.split("```")
    if len(parts) != 3 or (parts[0].strip() and parts[2].strip()):
        return ""
    inner = parts[1].strip()
    return inner[4:].strip() if inner[:4].casefold() == "json" else inner


def _first_object(text: str, *, must_end: bool) -> dict[str, Any] | None:
    """The object that a text begins with. Prose may follow it, another object may not."""
    try:
        value, end = _READER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    rest = text[end:].strip()
    return None if "{" in rest or (must_end and rest) else value
