"""Fills `{{ item.field }}` and `{{ sample.output_text }}`. Portable: standard library only.

Small and total: a variable is looked up, never evaluated; what it holds is pasted, never read as a template again.
Keys are separated by dots, list places are `[0]` (or `.0`), and a key that is no plain word is quoted:
`{{ item["Tweet text"] }}`. Text stands as it is; everything else is written as compact JSON, null as `null`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graders.failures import Ungraded
from graders.types import Sample

NAMESPACES = ("item", "sample")
SAMPLE_KEYS = (
    "output_text",
    "output_json",
    "output_tools",
    "choices",
    "output_reasoning_summary",
    "steps",
    "usage",
)

_OPEN = re.compile(r"\{\{")
_FIRST = re.compile(r"\s*([A-Za-z_][\w-]*)")
_PART = re.compile(
    r"\s*(?:\.\s*(?P<name>\w[\w-]*)|\[\s*(?P<index>\d+)\s*\]"
    r"|\[\s*(?P<quoted>\"(?:[^\"\\]|\\.)*\"|'[^'\\]*')\s*\])"
)
_CLOSE = re.compile(r"\s*\}\}")
_PLAIN = re.compile(r"\w[\w-]*")


class TemplateError(ValueError):
    """A template that cannot be read; `position` counts characters from 0."""

    def __init__(self, message: str, *, position: int, code: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.code = code
        self.fix = fix


@dataclass(frozen=True)
class Variable:
    """A path such as `item.ref.answer` or `sample.output_tools[0].function.name`."""

    root: str
    keys: tuple[str | int, ...]

    def __str__(self) -> str:
        return self.root + "".join(_written(key) for key in self.keys)

    @property
    def field(self) -> str:
        """The first key: the column of the dataset or the part of the sample."""
        return str(self.keys[0]) if self.keys else ""


def _written(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


class Template:
    """A text with variables, read once and rendered often."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.parts = list(_parts(source))
        self.variables = [part for part in self.parts if isinstance(part, Variable)]
        self.render: Callable[[dict[str, Any], Sample], str] = self._renderer()

    def _renderer(self) -> Callable[[dict[str, Any], Sample], str]:
        getters = [_getter(part) if isinstance(part, Variable) else part for part in self.parts]
        if not getters:
            return lambda item, sample: ""
        if len(getters) == 1 and callable(only := getters[0]):

            def render_one(item: dict[str, Any], sample: Sample) -> str:
                value = only(item, sample)
                return value if value.__class__ is str else as_text(value)

            return render_one

        def render(item: dict[str, Any], sample: Sample) -> str:
            return "".join(part if part.__class__ is str else as_text(part(item, sample)) for part in getters)

        return render

    def value(self, item: dict[str, Any], sample: Sample) -> Any:
        """The variable's own value when the template is one variable and nothing else, else the text."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Variable):
            return _getter(self.parts[0])(item, sample)
        return self.render(item, sample)


def as_text(value: Any) -> str:
    """Text as it is; the rest as compact JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (RecursionError, ValueError):
        raise Ungraded("invalid_variable_error", "A value is nested too deeply to be written as text.") from None


def _getter(variable: Variable) -> Callable[[dict[str, Any], Sample], Any]:
    """A function from (item, sample) to the value; the usual depths are written out because they run millions of times."""
    keys = variable.keys
    if variable.root == "sample" and keys in (("output_text",), ("output_tools",), ("choices",)):
        name = keys[0]
        return lambda item, sample: getattr(sample, name)
    if variable.root == "item" and len(keys) == 1 and isinstance(keys[0], str):
        key = keys[0]

        def field_of(item: dict[str, Any], sample: Sample) -> Any:
            try:
                return item[key]
            except (KeyError, TypeError):
                return _walk(variable, item, sample)

        return field_of
    return lambda item, sample: _walk(variable, item, sample)


def _walk(variable: Variable, item: dict[str, Any], sample: Sample) -> Any:
    keys = variable.keys
    value: Any = item
    start = 0
    if variable.root == "sample":
        if not keys:
            return sample.as_dict()
        name = keys[0]
        if name == "output_json" and sample.output_json is None:
            raise Ungraded("sample_parse_error", _no_json(sample))
        if name not in SAMPLE_KEYS:
            raise _missing(variable, 0, sample.as_dict())
        value, start = getattr(sample, str(name)), 1
    for depth in range(start, len(keys)):
        key = keys[depth]
        if isinstance(value, list) and str(key).isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and str(key) in value:
            value = value[str(key)]
        else:
            raise _missing(variable, depth, value)
    return value


def _no_json(sample: Sample) -> str:
    if not sample.output_text.strip():
        return "sample.output_json is absent: the answer is empty."
    return "sample.output_json is absent: the answer is not JSON, or the run has no response format."


def _missing(variable: Variable, depth: int, holder: Any) -> Ungraded:
    asked = Variable(variable.root, variable.keys[: depth + 1])
    where = str(Variable(variable.root, variable.keys[:depth]))
    if isinstance(holder, dict):
        names = sorted(map(str, holder))
        shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        there = f"{where} has: {shown}." if names else f"{where} is empty."
    elif isinstance(holder, list):
        there = f"{where} is a list of {len(holder)}."
    else:
        there = f"{where} is {_kind_of(holder)}."
    return Ungraded("invalid_variable_error", f"There is no {asked}; {there}")


def _kind_of(value: Any) -> str:
    return "null" if value is None else {"str": "text", "bool": "true or false"}.get(type(value).__name__, "a number")


def _parts(source: str) -> Any:
    """Literal texts and variables in order; raises TemplateError at the first thing that cannot be read."""
    position = depth = 0
    for opening in _OPEN.finditer(source):
        if opening.start() < position:
            continue
        if literal := source[position : opening.start()]:
            depth = _braces(literal, position, depth)
            yield literal
        variable, position = _variable(source, opening.start())
        yield variable
    if literal := source[position:]:
        _braces(literal, position, depth)
        yield literal


def _braces(literal: str, offset: int, depth: int) -> int:
    """Follow single braces, so that `}}` closing a JSON object is text and a stray `}}` is a mistake."""
    at = 0
    while at < len(literal):
        if literal[at] == "{":
            depth += 1
        elif literal.startswith("}}", at) and depth < 2:
            raise TemplateError(
                f'Stray "}}}}" at character {offset + at + 1}.',
                position=offset + at,
                code="template_stray_braces",
                fix='Remove the extra "}}": a variable is written {{ item.field }}, with two braces on each side.',
            )
        elif literal[at] == "}":
            depth = max(0, depth - 1)
        at += 1
    return depth


def _variable(source: str, start: int) -> tuple[Variable, int]:
    close = source.find("}}", start)
    inner = source[start + 2 : close if close >= 0 else len(source)].strip()
    where = f"at character {start + 1}"
    if close < 0:
        raise TemplateError(
            f'"{{{{" {where} is never closed.', position=start, code="template_unclosed", fix='Close it with "}}".'
        )
    first = _FIRST.match(source, start + 2)
    if not first or first.group(1) not in NAMESPACES:
        raise TemplateError(
            f"{{{{ {inner} }}}} {where} is no variable: only the namespaces item and sample exist.",
            position=start,
            code="template_namespace",
            fix=_namespace_fix(inner),
        )
    keys: list[str | int] = []
    at = first.end()
    while part := _PART.match(source, at):
        keys.append(_key(part))
        at = part.end()
    end = _CLOSE.match(source, at)
    if not end or not keys:
        raise TemplateError(
            f"{{{{ {inner} }}}} {where} cannot be read; there are no filters, loops or expressions.",
            position=start,
            code="template_syntax",
            fix=_syntax_fix(first.group(1), inner),
        )
    _refuse_dunder(source, start, keys, close)
    return Variable(first.group(1), tuple(keys)), end.end()


def _key(part: re.Match[str]) -> str | int:
    if part["quoted"]:
        try:
            return str(json.loads(part["quoted"], strict=False))
        except ValueError:
            return part["quoted"][1:-1]
    return int(part["index"]) if part["index"] else part["name"]


def _refuse_dunder(source: str, start: int, keys: list[str | int], close: int) -> None:
    written = source[start:close]
    for key in keys:
        if isinstance(key, str) and key.startswith("__") and f'"{key}"' not in written.replace("'", '"'):
            raise TemplateError(
                f"{key} at character {start + 1} is refused.",
                position=start,
                code="template_private",
                fix=f'If the data really has this key, quote it: {{{{ item["{key}"] }}}}.',
            )


def _namespace_fix(inner: str) -> str:
    word = inner.split(".", 1)[0].strip()
    if word in SAMPLE_KEYS:
        return f"Write {{{{ sample.{inner} }}}}."
    rest = inner.split(".", 1)[1].strip() if "." in inner else inner
    return f"Write {{{{ item.{rest} }}}} for a field of the row." if rest else "Write {{ item.field }}."


def _syntax_fix(root: str, inner: str) -> str:
    rest = inner[len(root) :].strip().lstrip(".").strip()
    if not rest:
        return f"Say which part: {{{{ {root}.… }}}}."
    if "[" in rest:
        return f"Write {{{{ {root}.list[0] }}}}: places count from 0, and a key in brackets stands in quotes."
    if "|" in rest:
        return f"Write {{{{ {root}.{rest.split('|', 1)[0].strip()} }}}} without the filter."
    return f"A key that is no plain word is quoted: {{{{ {root}[{json.dumps(rest, ensure_ascii=False)}] }}}}."
