"""What label pages show: an entry as a conversation without what must stay hidden, and the form with its answers."""

import hashlib
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from datasets import showing
from datasets.labelling.schema import STEP_MARKS
from datasets.models import DatasetVersion, Item, Label, LabelEntry, LabelTask
from datasets.row_checks import REFERENCE_NAMES


@dataclass(frozen=True)
class EntryShown:
    """An entry for the page. Built without reward, policy, labels and, unless the task shows it, the reference."""

    title: str
    messages: list[showing.MessageShown]
    fields: list[showing.FieldShown]
    steps: list[dict[str, Any]]
    answer: str
    pair: list[dict[str, Any]]


def entry_shown(entry: LabelEntry) -> EntryShown:
    value, steps, answer, pair = dict(entry.item.data if entry.item else entry.content), [], "", []
    if not entry.item:  # a rollout: what it did and answered is what is judged, whatever the form's fields are called
        steps, answer = value.pop("steps", []), str(value.pop("answer", "") or "")
        pair = [_side(name, side) for name, side in zip("AB", value.pop("pair", []), strict=False)]
    if not entry.task.shows_reference:
        written = {field["name"] for field in entry.task.fields}
        value = {name: inner for name, inner in value.items() if name not in REFERENCE_NAMES and name not in written}
    title = entry.item.key if entry.item else f"{'Pair' if pair else 'Rollout'} {entry.position + 1}"
    return EntryShown(
        title, showing.messages_shown(value), showing.fields_shown(value),
        [_step(number, step) for number, step in enumerate(steps)], answer, pair,
    )  # fmt: skip


def _side(name: str, side: dict[str, Any]) -> dict[str, Any]:
    steps = [_step(number, step) for number, step in enumerate(side.get("steps", []))]
    return {"name": name, "steps": steps, "answer": str(side.get("answer") or "")}


def _step(number: int, step: Any) -> dict[str, Any]:
    step = step if isinstance(step, dict) else {"title": str(step)}
    return {"number": number, "title": str(step.get("title", "")), "text": str(step.get("text", ""))[:20_000]}


def form_fields(
    fields: list[dict[str, Any]], values: dict[str, Any], steps: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """The form's fields with the present answers, ready for the template."""
    return [_form_field(field, values.get(field["name"]), steps or []) for field in fields]


def form_context(task: LabelTask, values: dict[str, Any], shown: EntryShown) -> dict[str, Any]:
    """The form in two: marks stand beside the steps they are about, everything else in the form."""
    fields = form_fields(task.fields, values, shown.steps)
    return {
        "form_fields": [field for field in fields if field["kind"] != "steps"],
        "step_field": next((field for field in fields if field["kind"] == "steps" and shown.steps), None),
    }


def _form_field(field: dict[str, Any], value: Any, steps: list[dict[str, Any]]) -> dict[str, Any]:
    shown = {
        **field,
        "value": value,
        "html_name": f"value-{field['name']}",
        "optional": not field.get("required", True),
    }
    kind = field["kind"]
    if kind in ("choice", "tags"):
        picked = value if isinstance(value, list) else [value]
        shown["choices"] = [
            {**option, "place": place, "is_on": option["value"] in picked}
            for place, option in enumerate(field.get("options", []))
        ]
    if kind == "score" and _is_short(field):
        low, high = int(field.get("low", 0)), int(field.get("high", 5))
        shown["marks"] = [{"value": mark, "is_on": value == mark} for mark in range(low, high + 1)]
    if kind == "steps":
        given = value or {}
        shown["rows"] = [
            {**step, "is_open": str(step["number"]) not in given,
             "marks": [{"mark": mark, "word": word, "is_on": str(given.get(str(step["number"]))) == str(mark)}
                       for mark, word in STEP_MARKS.items()]}
            for step in steps
        ]  # fmt: skip
    if kind in ("span", "tags") and not field.get("options"):
        shown["text"] = "\n".join(value or [])
    return shown


def _is_short(field: dict[str, Any]) -> bool:
    low, high = field.get("low", 0), field.get("high", 5)
    return low == int(low) and high == int(high) and high - low <= 10


STATE_WORDS = {
    LabelEntry.Status.AGREED: "agreed", LabelEntry.Status.DISPUTED: "disputed",
    LabelEntry.Status.SETTLED: "settled", LabelEntry.Status.SKIPPED: "skipped by everybody",
}  # fmt: skip


def item_labels(item: Item) -> list[dict[str, Any]]:
    """What the label tasks say of an item: how far each is and, once nobody labels it any more, what holds."""
    entries = LabelEntry.objects.filter(item=item).select_related("task").order_by("-pk")
    return [
        {
            "entry": entry,
            "said": STATE_WORDS.get(entry.status) or f"{entry.submitted} of {entry.task.overlap} labels are in",
            "values": [
                {
                    "label": field["label"],
                    "shown": showing.fields_shown({field["name"]: entry.result[field["name"]]})[0],
                }
                for field in entry.task.fields
                if field["name"] in entry.result
            ],
        }
        for entry in entries
    ]


def label_figure(version: DatasetVersion) -> dict[str, Any]:
    """How far the version's newest label task is, and its first agreement when somebody looked at it."""
    task = version.label_tasks.order_by("-pk").first()
    if task is None:
        return {}
    states = dict(task.entries.order_by().values_list("status").annotate(count=Count("pk")))
    total = sum(states.values())
    alphas = [row["alpha"] for row in task.agreement.get("fields", []) if row["alpha"] is not None]
    return {
        "task": task, "total": total, "done": total - states.get(LabelEntry.Status.OPEN, 0),
        "alpha": alphas[0] if alphas else None,
    }  # fmt: skip


def label_marks(items: list[Item]) -> dict[int, str]:
    """`{item id: "1 of 2"}` for a list of items, from their newest task. Counts alone, so blind people may see them."""
    rows = LabelEntry.objects.filter(item__in=items).order_by("pk")
    marks = {}
    for item, status, submitted, overlap in rows.values_list("item_id", "status", "submitted", "task__overlap"):
        marks[item] = STATE_WORDS.get(status) or f"{submitted} of {overlap}"
    return marks


def answers_side_by_side(entry: LabelEntry, labels: list[Label]) -> list[dict[str, Any]]:
    """Submitted labels in an order that tells nothing about who wrote them; names only once the entry is settled."""
    is_settled = entry.status == LabelEntry.Status.SETTLED
    ordered = sorted(labels, key=lambda label: hashlib.sha256(f"{entry.pk}:{label.pk}".encode()).digest())
    words = ("First", "Second", "Third", "Fourth", "Fifth")
    return [
        {
            "title": label.annotator if is_settled else f"{words[place] if place < 5 else place + 1} label",
            "values": [
                {
                    "label": field["label"],
                    "value": showing.fields_shown({field["name"]: label.values.get(field["name"])})[0],
                }
                for field in entry.task.fields
            ],
            "raw": label.values,
        }
        for place, label in enumerate(ordered)
    ]
