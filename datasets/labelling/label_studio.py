"""Label Studio's JSON, out and in: `[{"data", "annotations": [{"result": [{"from_name", "type", "value"}]}]}]`. Portable.

Ours → theirs: choice and tags → choices, score → number, everything else → textarea. Their `meta` carries our form along,
so that what comes back is read by it; without it a form is inferred from what was answered.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from datasets.labelling.schema import clean_values, options_of, schema_faults

TYPES = {
    "choice": "choices", "tags": "choices", "score": "number", "text": "textarea", "reference": "textarea",
    "note": "textarea", "steps": "textarea", "span": "textarea",
}  # fmt: skip
FORM = "rft_form"
TEXT_KEYS = ("text", "question", "prompt", "content", "body", "title", "uri")


class NotLabelStudio(Exception):
    """The file is no export of Label Studio; the message says why."""


@dataclass
class Annotation:
    annotator: str
    values: dict[str, Any]
    is_skipped: bool = False
    is_decision: bool = False  # theirs: ground truth
    reason: str = ""
    seconds: float = 0.0
    created_at: str = ""
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Task:
    data: dict[str, Any]
    annotations: list[Annotation]


@dataclass
class Export:
    """What a file holds; `left_out` counts answers of kinds that no field of ours can hold."""

    tasks: list[Task]
    fields: list[dict[str, Any]]
    left_out: Counter[str]


def task_out(number: int, data: dict[str, Any], annotations: list[Annotation], fields: list[dict[str, Any]]) -> dict:
    """One task as Label Studio imports it."""
    return {
        "id": number,
        "data": data,
        "annotations": [_annotation_out(place, each, fields) for place, each in enumerate(annotations, 1)],
        "predictions": [],
        "meta": {FORM: fields},
    }


def _annotation_out(number: int, annotation: Annotation, fields: list[dict[str, Any]]) -> dict[str, Any]:
    result = [
        {"id": f"{number}-{each['name']}", "from_name": each["name"], "to_name": "text", "origin": "manual",
         "type": TYPES[each["kind"]], "value": _value_out(each["kind"], annotation.values[each["name"]])}
        for each in fields
        if each["name"] in annotation.values
    ]  # fmt: skip
    return {
        "id": number, "completed_by": {"email": annotation.annotator}, "result": result,
        "was_cancelled": annotation.is_skipped, "skip_reason": annotation.reason,
        "ground_truth": annotation.is_decision, "lead_time": round(annotation.seconds, 3),
        "created_at": annotation.created_at,
    }  # fmt: skip


def _value_out(kind: str, value: Any) -> dict[str, Any]:
    if kind == "choice":
        return {"choices": [value]}
    if kind == "tags":
        return {"choices": list(value)}
    if kind == "score":
        return {"number": value}
    if kind == "steps":
        return {"text": [json.dumps(value, sort_keys=True)]}
    return {"text": list(value) if isinstance(value, list) else [str(value)]}


def read(text: bytes | str) -> Export:
    """Tasks and their form: our own when the file carries it, else one inferred from what was answered."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise NotLabelStudio(f"The file is not JSON: {exc}.") from exc
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("data"), dict) for row in rows
    ):
        raise NotLabelStudio("The file is no list of tasks with `data`.")
    own, kinds, left_out = _own_form(rows), {}, Counter()
    tasks = [
        Task(row["data"], [_annotation_in(each, own, kinds, left_out) for each in _objects(row.get("annotations"))])
        for row in rows
    ]
    return Export(tasks, own or [_field_of(name, seen) for name, seen in kinds.items()], left_out)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _own_form(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    meta = rows[0].get("meta") if rows else None
    form = meta.get(FORM) if isinstance(meta, dict) else None
    return form if form and not schema_faults(form) else []


def _annotation_in(
    row: dict[str, Any], own: list[dict[str, Any]], kinds: dict[str, dict[str, Any]], left_out: Counter[str]
) -> Annotation:
    values: dict[str, Any] = {}
    for result in _objects(row.get("result")):
        name, kind, value = _result_in(result, {field["name"]: field["kind"] for field in own})
        if not name:
            left_out[str(result.get("type"))] += 1
            continue
        if not own:
            seen = kinds.setdefault(name, {"kind": kind, "values": {}, "many": False, "low": None, "high": None})
            _remember(seen, kind, value)
        values[name] = [*values.get(name, []), *value] if kind in ("tags", "span") else value
    by = row.get("completed_by")
    annotator = (by.get("email") or f"user {by.get('id')}") if isinstance(by, dict) else f"user {by}"
    history = [
        {"action": str(each.get("action", "")), "at": str(each.get("created_at", ""))}
        for each in _objects(row.get("history"))
    ]
    seconds = row.get("lead_time")
    return Annotation(
        annotator, clean_values(own, values, is_final=False) if own else values, bool(row.get("was_cancelled")),
        bool(row.get("ground_truth")) and bool(own), str(row.get("skip_reason") or ""),
        float(seconds) if isinstance(seconds, (int, float)) else 0.0, str(row.get("created_at") or ""), history,
    )  # fmt: skip


def _result_in(result: dict[str, Any], own: dict[str, str]) -> tuple[str, str, Any]:
    """`(field, kind, value)`; an empty field for an answer that no field can hold."""
    value = result.get("value") if isinstance(result.get("value"), dict) else {}
    name, kind = field_name(str(result.get("from_name") or "")), result.get("type")
    if own and name not in own:
        return "", "", None
    if kind == "choices":
        choices = [str(each) for each in value.get("choices") or []]
        return (name, "choice", next(iter(choices), None)) if own.get(name) == "choice" else (name, "tags", choices)
    if kind in ("number", "rating"):
        return name, "score", value.get(kind)
    if kind == "textarea":
        return name, own.get(name, "text"), _texts_in(value.get("text") or [], own.get(name, "text"))
    if kind == "labels":
        return name, "span", [str(value.get("text", ""))]
    return "", "", None


def _texts_in(texts: Any, kind: str) -> Any:
    texts = [str(text) for text in texts] if isinstance(texts, list) else [str(texts)]
    if kind == "steps":
        try:
            return json.loads(texts[0])
        except (IndexError, ValueError):
            return {}
    return texts if kind == "span" else "\n".join(texts)


def field_name(text: str) -> str:
    """A name that our forms take, from any."""
    name = "".join(char if char.isascii() and char.isalnum() else "_" for char in text.lower()).strip("_")[:40]
    return name if name[:1].isalpha() else f"f_{name}"[:40] if name else ""


def _remember(seen: dict[str, Any], kind: str, value: Any) -> None:
    if kind == "tags":
        seen["many"] = seen["many"] or len(value) > 1
        seen["values"].update(dict.fromkeys(value))
    elif kind == "score" and value is not None:
        seen["low"] = value if seen["low"] is None else min(seen["low"], value)
        seen["high"] = value if seen["high"] is None else max(seen["high"], value)


def _field_of(name: str, seen: dict[str, Any]) -> dict[str, Any]:
    made = {"name": name, "label": name.replace("_", " ").capitalize(), "kind": seen["kind"], "required": False}
    if seen["kind"] == "tags":
        keys = options_of("\n".join(f"{number}" for number in range(len(seen["values"]))))
        made["options"] = [
            {"value": value, "label": " ".join(value.split()) or value, "key": option["key"]}
            for value, option in zip(seen["values"], keys, strict=True)
        ]
        made["kind"] = "tags" if seen["many"] or len(seen["values"]) < 2 else "choice"
    if seen["kind"] == "score":
        made |= {"low": min(0, seen["low"] or 0), "high": max(5, seen["high"] or 5)}
    return made


def row_of(data: dict[str, Any]) -> dict[str, Any]:
    """A task's data as a row of a dataset: its text becomes the question, unless it holds messages already."""
    if isinstance(data.get("messages"), list):
        return data
    name = next((key for key in TEXT_KEYS if isinstance(data.get(key), str)), None)
    name = name or next((key for key, value in data.items() if isinstance(value, str)), None)
    question = data[name] if name else json.dumps(data, ensure_ascii=False)
    rest = {key: value for key, value in data.items() if key not in (name, "messages", "id", "split")}
    return {"messages": [{"role": "user", "content": question}], **rest}
