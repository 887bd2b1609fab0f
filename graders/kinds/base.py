"""What every kind is made of: the fields of its form and JSON, its check, and how it compiles. Portable."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from graders.clients import GraderClients
from graders.templating import Template, TemplateError, Variable
from graders.types import Grade, Problem, Sample

Config = dict[str, Any]
#: What a compiled recipe is: a plain number is a reward without more to say.
Scorer = Callable[[dict[str, Any], Sample, str], "float | Grade"]
Shape = Literal[
    "text", "template", "number", "integer", "flag", "choice", "source", "messages", "words", "headers", "object",
    "graders", "grader", "range",
]  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One key of a recipe: how it is checked, filled in and asked for."""

    name: str
    shape: Shape
    label: str
    help: str = ""
    is_required: bool = False
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    minimum: float | None = None
    maximum: float | None = None


@dataclass
class Workshop:
    """What a kind may use while it compiles. Templates made here are known as the grader's variables."""

    clients: GraderClients
    compile_child: Callable[[Config], Any]
    variables: set[Variable] = field(default_factory=set)
    closers: list[Callable[[], None]] = field(default_factory=list)
    preparers: list[Callable[[], None]] = field(default_factory=list)  # what the caller's own thread must look up

    def template(self, source: str) -> Template:
        template = Template(source)
        self.variables.update(template.variables)
        return template


def no_problems(config: Config, path: str) -> Iterator[Problem]:
    yield from ()


@dataclass(frozen=True)
class Kind:
    """A way to score. `sentence` says in words what a recipe does; `icon` names the drawing of the form."""

    type: str
    title: str
    about: str
    fields: tuple[Field, ...]
    compile: Callable[[Config, Workshop], Scorer]
    sentence: Callable[[Config], str]
    problems: Callable[[Config, str], Iterator[Problem]] = no_problems
    icon: str = "check"
    is_ours: bool = False  # beyond the reference's wire format
    is_costly: bool = False  # calls a model or a server: it spends money and time

    def field(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)


def setting(config: Config, kind_field: Field) -> Any:
    """The value of a field, or its default."""
    value = config.get(kind_field.name)
    return kind_field.default if value is None else value


INPUT = Field(
    "input", "template", "Answer", "What is graded, usually the model's answer.", True, "{{ sample.output_text }}"
)
REFERENCE = Field("reference", "template", "Reference", "What it is compared with, usually a field of the item.", True)


def template_problem(source: Any, path: str) -> Problem | None:
    """Why a text is no template."""
    if not isinstance(source, str):
        return Problem(path, "wrong_type", f"This must be a text, not {type_name(source)}.", "Put it in quotes.")
    try:
        Template(source)
    except TemplateError as error:
        return Problem(path, error.code, error.message, error.fix)
    return None


def type_name(value: Any) -> str:
    """JSON's word for a value, with its article."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def nearest(word: Any, words: list[str]) -> str:
    """ "Did you mean eq?", or the list."""
    near = get_close_matches(str(word), words, 1, 0.5)
    listed = f"Allowed: {', '.join(words)}."
    return f"Did you mean {near[0]}? {listed}" if near else listed


def in_words(template: Any) -> str:
    """A template as a person says it: "answer", "item: agreed conclusion"."""
    try:
        parts = Template(str(template)).parts
    except TemplateError:
        return str(template)
    return "".join(_said(part) if isinstance(part, Variable) else part for part in parts).strip() or "nothing"


def _said(variable: Variable) -> str:
    if variable.root == "sample":
        names = {"output_text": "the answer", "output_json": "the answer's JSON", "output_tools": "the tool calls"}
        first = names.get(variable.field, variable.field.replace("_", " "))
        rest = "".join(f" {key}" for key in variable.keys[1:])
        return first + rest
    return "item: " + " ".join(str(key).replace("_", " ") for key in variable.keys)
