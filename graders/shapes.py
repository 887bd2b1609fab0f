"""Checks of a single value by the shape its field asks for. Portable."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from graders.kinds.base import Field, nearest, template_problem, type_name
from graders.types import Problem

Check = Callable[[Any, Field, str], Iterator[Problem]]
ROLES = ["user", "assistant", "system", "developer"]


def _wrong(where: str, wanted: str, value: Any, fix: str = "") -> Problem:
    return Problem(where, "wrong_type", f"This must be {wanted}, not {type_name(value)}.", fix or f"Write {wanted}.")


def _text(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield _wrong(where, "a text", value, "Put it in quotes.")
    elif field.is_required and not value.strip() and field.name != "calculate_output":
        yield Problem(where, "empty", f"{field.label} is empty.", field.help)


def _template(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if problem := template_problem(value, where):
        yield problem


def _number(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        yield _wrong(where, "a number", value)
    elif field.minimum is not None and value < field.minimum:
        yield Problem(where, "too_small", f"{value} is below {field.minimum:g}.", f"Write {field.minimum:g} or more.")
    elif field.maximum is not None and value > field.maximum:
        yield Problem(where, "too_large", f"{value} is above {field.maximum:g}.", f"Write {field.maximum:g} or less.")


def _integer(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if isinstance(value, float) and math.isfinite(value) and not value.is_integer():
        yield _wrong(where, "a whole number", value)
    else:
        yield from _number(value, field, where)


def _flag(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield _wrong(where, "true or false", value)


def _object(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong(where, "an object", value, "Write it in braces: { … }.")


def _headers(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        yield Problem(
            where, "wrong_type", "Headers are an object of texts.", 'For instance {"Authorization": "Bearer …"}.'
        )
    elif any("\n" in text or "\r" in text for pair in value.items() for text in pair):
        yield Problem(where, "header_line_end", "A header holds a line end.", "Write it on one line.")


def _words(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
        yield _wrong(where, "a list of texts", value, 'For instance ["a", "b"].')
    elif field.is_required and not value:
        yield Problem(where, "empty", f"{field.label} is empty.", field.help)


def _range(value: Any, field: Field, where: str) -> Iterator[Problem]:
    numbers = (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end) for end in value)
    )
    if not numbers:
        yield Problem(where, "wrong_type", "A range is two numbers.", "For instance [0, 1].")
    elif value[0] >= value[1]:
        yield Problem(where, "range_order", "The range's first number must be the smaller one.", "For instance [0, 1].")


def _graders(value: Any, field: Field, where: str) -> Iterator[Problem]:
    fix = 'Write "graders": {"a_name": {"type": …}, …}; the formula uses these names.'
    if isinstance(value, list):
        yield Problem(where, "graders_not_a_map", "graders must be a map name → grader, not a list.", fix)
    elif not isinstance(value, dict):
        yield _wrong(where, "a map name → grader", value, fix)
    elif isinstance(value.get("type"), str):
        said = "graders must be a map name → grader, not one grader."
        yield Problem(where, "graders_not_a_map", said, fix)
        for key, part in value.items():
            if not isinstance(part, dict):
                yield Problem(
                    f"{where}.{key}", "not_a_grader", f"{where}.{key} is {type_name(part)}, not a grader.", fix
                )
    elif not value:
        yield Problem(where, "empty", "There are no parts.", fix)


def _grader(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong(where, "a grader", value, 'For instance {"type": "string_check", …}.')


def _messages(value: Any, field: Field, where: str) -> Iterator[Problem]:
    if not isinstance(value, list) or not value:
        yield Problem(
            where, "wrong_type", "The judge's messages are a list.", 'For instance [{"role": "user", "content": "…"}].'
        )
        return
    for index, message in enumerate(value):
        at = f"{where}[{index}]"
        if not isinstance(message, dict):
            yield _wrong(at, "a message", message, '{"role": "user", "content": "…"}')
            continue
        if message.get("role") not in ROLES:
            said = f"The role cannot be {message.get('role')!r}."
            yield Problem(f"{at}.role", "unknown_choice", said, nearest(message.get("role"), ROLES))
        yield from _content(message.get("content"), f"{at}.content")


def _content(content: Any, where: str) -> Iterator[Problem]:
    parts = list(enumerate(content)) if isinstance(content, list) else [(None, content)]
    if not parts:
        yield Problem(where, "empty", "The message is empty.", "Write what the judge is to do.")
    for place, part in parts:
        at = where if place is None else f"{where}[{place}]"
        if isinstance(part, dict):
            yield from _part(part, at)
        elif problem := template_problem(part, at):
            yield problem


def _part(part: dict[str, Any], where: str) -> Iterator[Problem]:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        if problem := template_problem(part.get("text"), f"{where}.text"):
            yield problem
    elif kind == "input_image":
        if not isinstance(part.get("image_url"), str):
            yield Problem(
                f"{where}.image_url", "missing", "The picture has no image_url.", "Add an https or data address."
            )
        elif problem := template_problem(part["image_url"], f"{where}.image_url"):
            yield problem
    elif kind == "input_audio":
        yield from _sound(part.get("input_audio"), f"{where}.input_audio")
    else:
        kinds = ["input_text", "output_text", "input_image", "input_audio"]
        yield Problem(f"{where}.type", "unknown_choice", f"A message part cannot be {kind!r}.", nearest(kind, kinds))


def _sound(sound: Any, where: str) -> Iterator[Problem]:
    if not isinstance(sound, dict) or not isinstance(sound.get("data"), str):
        fix = 'Write "input_audio": {"data": "{{ item.recording }}", "format": "wav"}.'
        yield Problem(f"{where}.data", "missing", "The sound has no data.", fix)
    elif problem := template_problem(sound["data"], f"{where}.data"):
        yield problem


SHAPES: dict[str, Check] = {
    "text": _text,
    "template": _template,
    "number": _number,
    "integer": _integer,
    "flag": _flag,
    "choice": _text,
    "source": _text,
    "messages": _messages,
    "words": _words,
    "headers": _headers,
    "object": _object,
    "graders": _graders,
    "grader": _grader,
    "range": _range,
}
