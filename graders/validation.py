"""What is wrong with a recipe, said before anything runs, and the recipe with its defaults filled in. Portable."""

import math
from collections.abc import Iterator
from typing import Any

from graders.kinds.base import Config, Field, Kind, nearest, template_problem, type_name
from graders.kinds.registry import KINDS
from graders.shapes import SHAPES
from graders.templating import SAMPLE_KEYS, Template, TemplateError, Variable
from graders.types import Problem

#: Keys every kind may have.
COMMON_KEYS = {"type", "name", "pass_threshold"}
_MISTAKEN_OPERATIONS = {"neq": "ne", "!=": "ne", "==": "eq", "equals": "eq", "contains": "like", "icontains": "ilike"}


def grader_problems(config: Any, *, fields: dict[str, Any] | None = None) -> list[Problem]:
    """Errors first, then warnings. `fields`: the dataset's field names, each with None or {"present", "of"}."""
    problems = list(_problems(config, "", depth=0))
    if fields is not None and isinstance(config, dict):
        problems += field_problems(config, fields)
    return sorted(problems, key=lambda problem: problem.level != "error")


def has_errors(problems: list[Problem]) -> bool:
    return any(problem.level == "error" for problem in problems)


def _problems(config: Any, path: str, depth: int) -> Iterator[Problem]:
    if not isinstance(config, dict):
        yield Problem(
            path.rstrip(".") or "grader",
            "wrong_type",
            f"A grader is an object, not {type_name(config)}.",
            'For instance {"type": "string_check", …}.',
        )
        return
    kind = KINDS.get(config.get("type")) if isinstance(config.get("type"), str) else None
    if kind is None:
        said = f"There is no kind {config['type']!r}." if config.get("type") else "The grader has no type."
        yield Problem(f"{path}type", "unknown_type", said, nearest(config.get("type"), list(KINDS)))
        return
    yield from _place_problems(kind, path, depth)
    yield from _common_problems(config, path)
    for field in kind.fields:
        yield from _field_problems(config, field, path)
    yield from _unknown_keys(config, kind, path)
    yield from kind.problems(config, path)
    yield from _child_problems(config, kind, path, depth)


def _place_problems(kind: Kind, path: str, depth: int) -> Iterator[Problem]:
    if kind.type == "multi" and depth:
        yield Problem(f"{path}type", "nested_multi", "A multi grader cannot hold another one.", "Move its parts up.")
    if kind.type == "label_model" and not depth:
        yield Problem(
            f"{path}type",
            "label_model_alone",
            "Hosted services take label_model only inside a multi grader; it works here.",
            "Wrap it: a multi grader with this one part.",
            "warning",
        )


def _common_problems(config: Config, path: str) -> Iterator[Problem]:
    name, threshold = config.get("name"), config.get("pass_threshold")
    if name is not None and not isinstance(name, str):
        yield Problem(
            f"{path}name", "wrong_type", f"The name must be a text, not {type_name(name)}.", "Put it in quotes."
        )
    if threshold is not None and not is_number(threshold):
        yield Problem(f"{path}pass_threshold", "wrong_type", "The pass mark must be a number.", "For instance 0.5.")


def _field_problems(config: Config, field: Field, path: str) -> Iterator[Problem]:
    value, where = config.get(field.name), f"{path}{field.name}"
    if value is None:
        if field.is_required:
            yield Problem(where, "missing", f"{field.name} is missing.", _missing_fix(field))
        return
    if field.choices and field.shape == "choice":
        allowed = [choice for choice, _ in field.choices]
        if value not in allowed and value != "cosine":
            known = _MISTAKEN_OPERATIONS.get(value) if isinstance(value, str) else None
            fix = f"Write {known}." if known in allowed else nearest(value, allowed)
            yield Problem(where, "unknown_choice", f"{field.name} cannot be {value!r}.", fix)
        return
    yield from SHAPES[field.shape](value, field, where)


def _missing_fix(field: Field) -> str:
    if field.choices:
        return f"Choose one of: {', '.join(choice for choice, _ in field.choices)}."
    if isinstance(field.default, int | float | str) and "\n" not in str(field.default):
        return f"For instance: {field.default}"
    return field.help or f"Add {field.name}."


def _unknown_keys(config: Config, kind: Kind, path: str) -> Iterator[Problem]:
    known = COMMON_KEYS | {field.name for field in kind.fields}
    for key in config:
        if key not in known:
            yield Problem(
                f"{path}{key}",
                "unknown_key",
                f"{kind.type} has no key {key}; it is kept and not used.",
                nearest(key, sorted(known)),
                "warning",
            )


def _child_problems(config: Config, kind: Kind, path: str, depth: int) -> Iterator[Problem]:
    if depth > 3:
        yield Problem(path, "nested_deeply", "Graders are nested too deeply.", "Three levels are enough.")
        return
    for where, child in children(config):
        yield from _problems(child, f"{path}{where}.", depth + 1)


def children(config: Config) -> Iterator[tuple[str, Any]]:
    """(path, recipe) of the graders inside a grader."""
    graders = config.get("graders")
    if isinstance(graders, dict) and "type" not in graders:
        for name, child in graders.items():
            yield f"graders.{name}", child
    elif isinstance(graders, list):
        for index, child in enumerate(graders):
            yield f"graders[{index}]", child
    if isinstance(config.get("grader"), dict):
        yield "grader", config["grader"]


def is_costly(config: Any) -> bool:
    """Whether grading by this recipe calls a judge or a server outside, at any depth."""
    if not isinstance(config, dict):
        return False
    kind = KINDS.get(config["type"]) if isinstance(config.get("type"), str) else None
    return bool(kind and kind.is_costly) or any(is_costly(child) for _, child in children(config))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# Variables against the fields of a dataset.


def templates_of(config: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, text) of every template in a recipe."""
    kind = KINDS.get(config.get("type", "")) if isinstance(config, dict) else None
    if kind is None:
        return
    for field in kind.fields:
        value = config.get(field.name)
        if field.shape == "template" and isinstance(value, str):
            yield f"{path}{field.name}", value
        elif field.shape == "messages" and isinstance(value, list):
            yield from ((f"{path}{where}", text) for where, text in message_texts(value, field.name))
    for where, child in children(config):
        yield from templates_of(child, f"{path}{where}.")


def message_texts(messages: list[Any], name: str) -> Iterator[tuple[str, str]]:
    """(path, text) of each text in a list of judge messages, in all their documented shapes."""
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        where = f"{name}[{index}].content"
        for place, part in enumerate(content) if isinstance(content, list) else [(None, content)]:
            at = where if place is None else f"{where}[{place}]"
            if isinstance(part, str):
                yield at, part
            elif isinstance(part, dict):
                sound = part.get("input_audio")
                places = {"text": part.get("text"), "image_url": part.get("image_url")}
                places["input_audio.data"] = sound.get("data") if isinstance(sound, dict) else None
                yield from ((f"{at}.{name}", text) for name, text in places.items() if isinstance(text, str))


def variables_of(config: Any) -> list[tuple[str, Variable]]:
    found = []
    for path, text in templates_of(config):
        try:
            found += [(path, variable) for variable in Template(text).variables]
        except TemplateError:
            continue
    return found


def field_problems(config: Config, fields: dict[str, Any]) -> list[Problem]:
    """Variables that the dataset's items, or samples, do not have."""
    problems = []
    for path, variable in variables_of(config):
        problem = _item_problem(path, variable, fields) if variable.root == "item" else _sample_problem(path, variable)
        if problem and problem not in problems:
            problems.append(problem)
    return problems


def _item_problem(path: str, variable: Variable, fields: dict[str, Any]) -> Problem | None:
    name = variable.field
    if not name or name in ("messages", "tools", "parallel_tool_calls"):
        return None
    if name not in fields:
        total = next((f["of"] for f in fields.values() if isinstance(f, dict) and "of" in f), None)
        share = f" (missing in {total} of {total} rows)" if total else ""
        return Problem(
            path,
            "variable_missing",
            f"No item has a field “{name}”{share}.",
            nearest(name, sorted(fields)).replace("Allowed:", "The items have:")
            if fields
            else "The items have no fields.",
        )
    about = fields[name]
    if isinstance(about, dict) and about.get("of") and about.get("present", about["of"]) < about["of"]:
        missing = about["of"] - about["present"]
        return Problem(
            path,
            "variable_sparse",
            f"The field “{name}” is missing in {missing} of {about['of']} rows; those stay ungraded.",
            "Fill it in, or leave these rows out.",
            "warning",
        )
    return None


def _sample_problem(path: str, variable: Variable) -> Problem | None:
    if variable.field in SAMPLE_KEYS or not variable.field:
        return None
    return Problem(
        path, "variable_missing", f"A sample has no {variable.field}.", nearest(variable.field, list(SAMPLE_KEYS))
    )


# The recipe as it will run.


def normalised(config: Any, name: str = "grader") -> Any:
    """The recipe with names and defaults filled in, and a list of graders turned into a map by name."""
    kind = (
        KINDS.get(config.get("type", "")) if isinstance(config, dict) and isinstance(config.get("type"), str) else None
    )
    if kind is None:
        return config
    result = {"type": kind.type, "name": config.get("name") or name, **config}
    result["name"] = result["name"] or name
    for field in kind.fields:
        if result.get(field.name) is None and field.default is not None and field.shape != "source":
            result[field.name] = field.default
    graders = result.get("graders")
    if isinstance(graders, list):
        graders = {
            str(child.get("name") or f"part_{index}") if isinstance(child, dict) else f"part_{index}": child
            for index, child in enumerate(graders)
        }
    if isinstance(graders, dict) and "type" not in graders:
        result["graders"] = {key: normalised(child, key) for key, child in graders.items()}
    if isinstance(result.get("grader"), dict):
        result["grader"] = normalised(result["grader"], "step")
    return result


__all__ = ["field_problems", "grader_problems", "has_errors", "normalised", "template_problem", "variables_of"]
