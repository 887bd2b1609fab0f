"""People's labels as the measure of a grader: which questions were asked, and what a label is worth from 0 to 1. Reads only.

A label on a rollout is a judgement of it. A label on an item is the right answer in an expert's words: a rollout of that
item is worth 1 when its answer says the same.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasets.models import DatasetVersion, LabelEntry
from graders.sample_sources import StoredSample, stored_samples
from graders.types import Sample
from rftstudio.teams.models import Team

MOST_ENTRIES = 20_000
MOST_SAMPLES = 500
ROLLOUT = "roll-"
_JUDGING = {"score", "choice"}
_ANSWERING = {"reference", "choice", "text"}
#: Choices that say yes, so that nobody has to tick them.
_GOOD = re.compile(
    r"^(yes|right|correct|good|ok|okay|pass|passed|true|agree|acceptable|accept|accepted|helpful|fine|best|fully|full)\b",
    re.I,
)


@dataclass
class Question:
    """One field of a label task, with how many results it has. `is_about_items`: it names the right answer."""

    id: str
    title: str
    kind: str
    name: str
    is_about_items: bool
    options: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 5.0
    count: int = 0

    @property
    def likely_good(self) -> list[str]:
        """Choices taken as right until a person says otherwise: those that say so, else the first."""
        return [option for option in self.options if _GOOD.match(option)] or list(self.options[:1])


def _entries(team: Team) -> Iterable[tuple[LabelEntry, bool]]:
    """Entries with a result that holds, newest first, and whether each is about an item."""
    rows = LabelEntry.objects.filter(task__team=team).exclude(result={}).select_related("task__version")
    for entry in rows.defer("content").order_by("-pk")[:MOST_ENTRIES]:
        if entry.subject.startswith(ROLLOUT):
            yield entry, False
        elif entry.task.version_id:
            yield entry, True


def questions(*, team: Team, version: DatasetVersion | None = None) -> list[Question]:
    """What people were asked about rollouts, and about items of this version's dataset; most answered first."""
    found: dict[str, Question] = {}
    for entry, is_item in _entries(team):
        if is_item and (version is None or entry.task.version.dataset_id != version.dataset_id):
            continue
        for field in entry.task.fields:
            if field["kind"] in (_ANSWERING if is_item else _JUDGING) and field["name"] in entry.result:
                question = _question(entry, field, is_item)
                found.setdefault(question.id, question).count += 1
    return sorted(found.values(), key=lambda question: (question.is_about_items, -question.count))


def _question(entry: LabelEntry, field: dict[str, Any], is_item: bool) -> Question:
    options = tuple(str(option["value"]) for option in field.get("options", []))
    return Question(
        f"{entry.task.public_id}:{field['name']}", f"{entry.task.name}: {field['label']}", field["kind"],
        field["name"], is_item, options, float(field.get("low", 0)), float(field.get("high", 5)),
    )  # fmt: skip


def labelled_samples(
    *, team: Team, version: DatasetVersion | None, question: Question, good: Sequence[str] = ()
) -> list[StoredSample]:
    """Stored rollouts with what people think of them as `label`; `good` are the choices that count 1."""
    task_id = question.id.split(":")[0]
    results = {
        entry.subject: entry.result[question.name]
        for entry, is_item in _entries(team)
        if entry.task.public_id == task_id and is_item == question.is_about_items and question.name in entry.result
    }
    good = list(good) or question.likely_good
    if not question.is_about_items:
        stored = stored_samples(team=team, version=version, limit=MOST_SAMPLES, rollouts=list(results))
        return [replace(one, label=worth(question, results[one.id], good)) for one in stored]
    stored = stored_samples(team=team, version=version, limit=MOST_SAMPLES, items=list(results))
    return [
        replace(one, label=float(says_the_same(one.sample, question.name, results[one.item_key]))) for one in stored
    ]


def worth(question: Question, value: Any, good: Sequence[str]) -> float | None:
    """A judgement from 0 to 1: a score by its scale, a choice by whether it is a good one."""
    if question.kind == "choice":
        return float(value in good)
    if not isinstance(value, int | float) or question.high <= question.low:
        return None
    return min(1.0, max(0.0, (value - question.low) / (question.high - question.low)))


def says_the_same(sample: Sample, name: str, reference: Any) -> bool:
    """Whether an answer gives the expert's reference: in a field of that name, as a whole, or word for word in it."""
    wanted = _plain(reference)
    if isinstance(sample.output_json, dict) and name in sample.output_json:
        return _plain(sample.output_json[name]) == wanted
    answer = _plain(sample.output_text)
    return bool(wanted) and (answer == wanted or re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", answer) is not None)


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split()).casefold()


def rollout_labels(*, team: Team, rollouts: Sequence[str]) -> dict[str, float]:
    """What people think of these rollouts, from 0 to 1, over all questions that were asked about each."""
    wanted, found = set(rollouts), {}
    for entry, is_item in _entries(team):
        if is_item or entry.subject not in wanted:
            continue
        fields = [field for field in entry.task.fields if field["kind"] in _JUDGING and field["name"] in entry.result]
        asked = [(_question(entry, field, False), entry.result[field["name"]]) for field in fields]
        marks = [worth(question, value, question.likely_good) for question, value in asked]
        found.setdefault(entry.subject, []).extend(mark for mark in marks if mark is not None)
    return {subject: sum(marks) / len(marks) for subject, marks in found.items() if marks}
