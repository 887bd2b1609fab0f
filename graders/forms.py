"""The form of a recipe: a recipe as fields to draw, and posted fields as a recipe again.

Form and JSON are two views of one draft, so nothing is lost on the way: a value that cannot be read stays as the text
that was typed (and the check says so at its field), and keys without a field travel along in `rest`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graders.kinds.base import Field, Kind
from graders.kinds.registry import KINDS
from graders.types import Problem
from graders.validation import COMMON_KEYS

ROLES = ("developer", "user", "system", "assistant")
SAMPLING = {"temperature": "Temperature", "max_completions_tokens": "Tokens at most", "reasoning_effort": "Effort"}


@dataclass
class Control:
    """One control to draw. `path` is the key's place in the recipe, where problems point."""

    name: str
    path: str
    shape: str
    label: str
    help: str = ""
    value: Any = ""
    choices: list[tuple[str, str]] = field(default_factory=list)
    is_required: bool = False
    rows: int = 2
    problems: list[Problem] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"id_{self.name}"

    @property
    def takes_variables(self) -> bool:
        return self.shape in ("template", "message")


@dataclass
class Node:
    """One grader of the recipe as a form: its controls and the graders inside it."""

    prefix: str
    path: str
    kind: Kind | None
    type: str
    name: str = ""
    key: str = ""  # the name in a multi's formula
    sentence: str = ""
    pass_mark: str = ""
    controls: list[Control] = field(default_factory=list)
    parts: list["Node"] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def rest_json(self) -> str:
        return json.dumps(self.rest, ensure_ascii=False)

    @property
    def count(self) -> int:
        """Errors here and below."""
        own = sum(problem.level == "error" for problem in self.problems)
        own += sum(problem.level == "error" for control in self.controls for problem in control.problems)
        return own + sum(part.count for part in self.parts)

    def all_controls(self) -> list[Control]:
        return [*self.controls, *(control for part in self.parts for control in part.all_controls())]

    def all_nodes(self) -> list["Node"]:
        return [self, *(node for part in self.parts for node in part.all_nodes())]


# A recipe as a form.


def node_of(config: Any, problems: list[Problem] = (), prefix: str = "g", path: str = "", key: str = "") -> Node:
    """The form of a recipe, each problem standing at the control it is about."""
    config = config if isinstance(config, dict) else {}
    kind = KINDS.get(config["type"]) if isinstance(config.get("type"), str) else None
    node = Node(prefix, path, kind, str(config.get("type") or ""), str(config.get("name") or ""), key)
    mark = config.get("pass_threshold")
    node.pass_mark = "" if mark is None else mark if isinstance(mark, str) else json.dumps(mark)
    if kind:
        node.sentence = kind.sentence(config)
        for kind_field in kind.fields:
            node.controls += _controls(kind_field, config.get(kind_field.name), prefix, path)
        node.parts = _parts(config, kind, prefix, path)
    node.rest = {name: value for name, value in config.items() if name not in _known(kind)}
    if prefix == "g":
        _place(node, list(problems))
    return node


def _known(kind: Kind | None) -> set[str]:
    return COMMON_KEYS | ({kind_field.name for kind_field in kind.fields} if kind else set())


def _parts(config: dict[str, Any], kind: Kind, prefix: str, path: str) -> list[Node]:
    graders = config.get("graders")
    if kind.field("graders") and isinstance(graders, dict) and "type" not in graders:
        return [
            node_of(child, prefix=f"{prefix}-{index}", path=f"{path}graders.{key}.", key=key)
            for index, (key, child) in enumerate(graders.items())
        ]
    if kind.field("grader"):
        return [node_of(config.get("grader"), prefix=f"{prefix}-0", path=f"{path}grader.")]
    return []


def _controls(kind_field: Field, value: Any, prefix: str, path: str) -> list[Control]:
    name, where = f"{prefix}-{kind_field.name}", f"{path}{kind_field.name}"
    if kind_field.shape in ("graders", "grader"):
        return []
    if kind_field.shape == "messages" and _are_plain(value):
        return _message_controls(value or [], name, where)
    if kind_field.name == "sampling_params" and (value is None or _is_plain_sampling(value)):
        return _sampling_controls(value or {}, name, where)
    control = Control(
        name,
        where,
        kind_field.shape,
        kind_field.label,
        kind_field.help,
        choices=list(kind_field.choices),
        is_required=kind_field.is_required,
    )
    control.value = _shown(value, kind_field)
    if kind_field.shape == "messages":
        control.shape, control.rows = "object", 10
        control.help = "This rubric has pictures or parts, so it is shown as JSON."
    if kind_field.shape in ("source", "object"):
        control.rows = max(8, min(28, str(control.value).count("\n") + 2))
    return [control]


def _shown(value: Any, kind_field: Field) -> Any:
    shape = kind_field.shape
    if value is None:
        return kind_field.default if shape == "choice" else ""
    if shape == "words" and isinstance(value, list):
        return "\n".join(word if isinstance(word, str) else json.dumps(word) for word in value)
    if shape == "headers" and isinstance(value, dict):
        return "\n".join(f"{name}: {text}" for name, text in value.items())
    if shape == "range" and isinstance(value, list) and len(value) == 2:
        return [json.dumps(end) if not isinstance(end, str) else end for end in value]
    if shape == "flag" and isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def _are_plain(messages: Any) -> bool:
    """Messages whose content is one text each, which is what the form can show."""
    return messages is None or (
        isinstance(messages, list)
        and all(
            isinstance(message, dict)
            and set(message) <= {"role", "content", "type"}
            and isinstance(message.get("content"), str)
            for message in messages
        )
    )


def _message_controls(messages: list[dict[str, Any]], name: str, where: str) -> list[Control]:
    return [
        Control(
            f"{name}-{index}",
            f"{where}[{index}]",
            "message",
            "Rubric" if message.get("role") in ("developer", "system") else "Shown to the judge",
            value=message,
            choices=[(role, role) for role in ROLES],
            rows=max(3, min(14, message["content"].count("\n") + len(message["content"]) // 80 + 2)),
        )
        for index, message in enumerate(messages or [{"role": "developer", "content": ""}])
    ]


def _is_plain_sampling(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(each, int | float | str) and not isinstance(each, bool) for each in value.values()
    )


def _sampling_controls(sampling: dict[str, Any], name: str, where: str) -> list[Control]:
    labels = {**SAMPLING, **{key: key for key in sampling if key not in SAMPLING}}
    return [
        Control(f"{name}-{key}", f"{where}.{key}", "sampling", label, value=sampling.get(key, ""))
        for key, label in labels.items()
    ]


def _place(node: Node, problems: list[Problem]) -> None:
    """Hang each problem on the control, or else the grader, whose path it lies in."""
    controls = sorted(node.all_controls(), key=lambda control: -len(control.path))
    nodes = sorted(node.all_nodes(), key=lambda each: -len(each.path))
    for problem in problems:
        place: Control | Node | None = next((c for c in controls if _lies_in(problem.path, c.path)), None)
        place = place or next((n for n in nodes if n.path and problem.path.startswith(n.path.rstrip("."))), node)
        place.problems.append(problem)


def _lies_in(path: str, place: str) -> bool:
    return path == place or path.startswith((f"{place}.", f"{place}["))


# Posted fields as a recipe.


def config_from(data: Mapping[str, Any], prefix: str = "g") -> dict[str, Any]:
    """The recipe that posted fields describe. Never raises: what cannot be read stays text."""
    kind = KINDS.get(str(data.get(f"{prefix}-type", "")))
    config: dict[str, Any] = {"type": str(data.get(f"{prefix}-type", ""))}
    if name := str(data.get(f"{prefix}-name", "")).strip():
        config["name"] = name
    threshold = str(data.get(f"{prefix}-pass_threshold", "")).strip()
    if threshold:
        config["pass_threshold"] = _number(threshold)
    for kind_field in kind.fields if kind else ():
        value = _posted(data, f"{prefix}-{kind_field.name}", kind_field, prefix)
        if value is not None:
            config[kind_field.name] = value
    rest = _json(str(data.get(f"{prefix}-rest", "") or "{}"))
    return {**config, **{k: v for k, v in rest.items() if k not in _known(kind)}} if isinstance(rest, dict) else config


def _posted(data: Mapping[str, Any], name: str, kind_field: Field, prefix: str) -> Any:
    shape = kind_field.shape
    if shape == "graders":
        return _posted_parts(data, prefix)
    if shape == "grader":
        return config_from(data, f"{prefix}-0")
    if shape == "messages" and f"{name}-0" in data:
        return _posted_messages(data, name)
    if kind_field.name == "sampling_params" and f"{name}-temperature" in data:
        return _posted_sampling(data, name) or None
    if shape == "range":
        ends = [str(data.get(f"{name}-{end}", "")).strip() for end in ("low", "high")]
        return [_number(end) for end in ends] if any(ends) else None
    if shape == "flag":
        return (name in data) or None
    text = str(data.get(name, "")).replace("\r\n", "\n")
    return _value(text, shape)


def _value(text: str, shape: str) -> Any:
    if shape in ("template", "source"):
        return text
    if not text.strip():
        return None
    if shape in ("number", "integer"):
        return _number(text.strip())
    if shape == "words":
        return [line.strip() for line in text.split("\n") if line.strip()]
    if shape == "headers":
        pairs = [line.partition(":") for line in text.split("\n") if line.strip()]
        return {name.strip(): value.strip() for name, _, value in pairs}
    if shape in ("object", "messages"):
        return _json(text)
    return text


def _posted_parts(data: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for index in range(_count(data, prefix)):
        key = str(data.get(f"{prefix}-{index}-part", "")).strip() or f"part_{index + 1}"
        while key in parts:
            key += "_2"
        parts[key] = config_from(data, f"{prefix}-{index}")
        parts[key].setdefault("name", key)
    return parts


def _count(data: Mapping[str, Any], prefix: str) -> int:
    text = str(data.get(f"{prefix}-count", "0"))
    return min(int(text), 50) if text.isdecimal() else 0


def _posted_messages(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    messages = []
    for index in range(20):
        content = data.get(f"{name}-{index}")
        if content is None:
            break
        if str(content).strip() or index == 0:
            role = str(data.get(f"{name}-{index}-role", "user"))
            messages.append({"role": role, "content": str(content).replace("\r\n", "\n")})
    return messages


def _posted_sampling(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    sampling: dict[str, Any] = {}
    for key in data:
        if key.startswith(f"{name}-") and (text := str(data.get(key)).strip()):
            sampling[key.removeprefix(f"{name}-")] = _number(text)
    return sampling


def _number(text: str) -> Any:
    """A number as JSON writes it; otherwise the text, which the check then points at."""
    value = _json(text)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else text


def _json(text: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return text


# Changes that a button makes.


def config_changed(config: dict[str, Any], change: str) -> dict[str, Any]:
    """The recipe after a button: `add:string_check`, `remove:1`, `up:2`, `down:0`, `move:2:0` (from, to), `type:multi`."""
    verb, _, argument = change.partition(":")
    graders = config.get("graders")
    parts = list(graders.items()) if isinstance(graders, dict) else []
    if verb == "add" and argument in KINDS:
        parts.append((_free_key(argument, dict(parts)), starter(argument)))
        return _with_parts(config, parts)
    if verb in ("remove", "up", "down") and argument.isdecimal() and int(argument) < len(parts):
        place = int(argument)
        moved = parts.pop(place)
        if verb != "remove":
            parts.insert(max(0, place - 1) if verb == "up" else place + 1, moved)
        return _with_parts(config, parts)
    if verb == "move":
        source, _, target = argument.partition(":")
        if source.isdecimal() and target.isdecimal() and int(source) < len(parts):
            parts.insert(int(target), parts.pop(int(source)))
        return _with_parts(config, parts)
    if verb == "type" and argument in KINDS:
        return _retyped(config, argument)
    return config


def _with_parts(config: dict[str, Any], parts: list[tuple[str, Any]]) -> dict[str, Any]:
    """New parts; a formula that is still the plain sum goes along, one that somebody wrote is left alone."""
    before = " + ".join(config.get("graders") or ())
    formula = config.get("calculate_output") or before
    formula = " + ".join(key for key, _ in parts) if formula == before else formula
    return {**config, "graders": dict(parts), "calculate_output": formula}


def _free_key(kind: str, taken: Mapping[str, Any]) -> str:
    words = {"string_check": "exact", "text_similarity": "near", "score_model": "judge", "numeric": "amount"}
    key = base = words.get(kind, kind)
    number = 2
    while key in taken:
        key, number = f"{base}_{number}", number + 1
    return key


def starter(kind: str) -> dict[str, Any]:
    """A fresh recipe of a kind, with its defaults."""
    config: dict[str, Any] = {"type": kind}
    for kind_field in KINDS[kind].fields:
        if kind_field.is_required:
            config[kind_field.name] = kind_field.default if kind_field.default is not None else _blank(kind_field)
    return config


def _blank(kind_field: Field) -> Any:
    if kind_field.name == "reference":
        return "{{ item.reference_answer }}"
    blanks: dict[str, Any] = {
        "words": [],
        "object": {},
        "graders": {},
        "grader": starter("string_check") if kind_field.shape == "grader" else {},
    }
    return blanks.get(kind_field.shape, "")


def _retyped(config: dict[str, Any], kind: str) -> dict[str, Any]:
    """Another kind with what both have; a single grader that becomes a multi becomes its first part."""
    if kind == config.get("type"):
        return config
    kept = {key: config[key] for key in ("name", "pass_threshold") if key in config}
    if kind == "multi":
        part = {key: value for key, value in config.items() if key != "pass_threshold"}
        key = _free_key(str(config.get("type")), {})
        return {**kept, "type": "multi", "graders": {key: {**part, "name": key}}, "calculate_output": key}
    fresh = starter(kind)
    return {**fresh, **{key: config[key] for key in fresh if key in config and key != "type"}, **kept, "type": kind}
