"""Label Studio in and out."""

import json

import pytest

from datasets.labelling import services
from datasets.labelling.exchange import label_studio_export, label_studio_import
from datasets.models import Label
from rftstudio.core.errors import UserError
from tests.datasets.helpers import CASES

pytestmark = pytest.mark.django_db
HOSTILE = "real/label-studio/export_choices_hostile_text.json"
HISTORY = "real/label-studio/export_with_history.json"


def brought(member, path: str, name: str = "From there"):
    task, left_out = label_studio_import(actor=member, name=name, content=(CASES / path).read_bytes())
    assert left_out == {}
    return task


def test_hostile_choice_is_kept_as_it_was(member):
    task = brought(member, HOSTILE)
    label = Label.objects.get()
    assert label.values == {"uri_selection": ['Yes " "" \n \t \t а б в \n']}
    assert label.annotator == "user404@example.com"
    item = task.entries.get().item
    assert item.data["writers"][0]["ipi"] is None
    assert item.title == "TAN BAI"


def test_history_is_kept(member):
    task = brought(member, HISTORY)
    entry = task.entries.get()
    assert entry.item.data["messages"][0]["content"].startswith("Calif. wildfires")
    event = entry.events.get()
    assert (event.who, event.values["history"][0]["action"]) == ("sergei@heartex.e2e", "submitted")
    assert Label.objects.get().seconds == pytest.approx(1.849)
    assert entry.status == "agreed"


FORM = [
    {"name": "right", "label": "Is it right?", "kind": "choice", "required": True,
     "options": [{"value": value, "label": value, "key": value[0].lower()} for value in ("Yes", "No", "Unclear")]},
    {"name": "topics", "label": "Topics", "kind": "tags", "required": False, "options": []},
    {"name": "worth", "label": "Worth", "kind": "score", "required": False, "low": 1, "high": 10},
    {"name": "steps", "label": "Steps", "kind": "steps", "required": False},
    {"name": "proof", "label": "Passages", "kind": "span", "required": False},
    {"name": "note", "label": "Note", "kind": "note", "required": False},
]  # fmt: skip


def test_export_of_an_import_of_an_export_is_the_same(member, version, anna, bert, cleo):
    task = services.task_create(
        actor=member, name="Whole form", fields=FORM, version=version, overlap=2,
        annotators=[anna.user, bert.user], adjudicators=[cleo.user],
    )  # fmt: skip
    full = {"right": "Yes", "topics": ["vat", "ships"], "worth": 7, "steps": {"0": 1, "2": -1},
            "proof": ["one passage", "another"], "note": "=1+1"}  # fmt: skip
    for actor, values in ((anna, full), (bert, {"right": "No"})):
        entry, _ = services.entry_claim(actor=actor, task=task)
        disputed = services.label_submit(actor=actor, entry=entry, values=values)
    services.entry_adjudicate(actor=cleo, entry=disputed, values={"right": "Unclear"})
    entry, _ = services.entry_claim(actor=anna, task=task)
    services.label_skip(actor=anna, entry=entry, reason="no idea")
    first = label_studio_export(actor=member, task=task)
    again, _ = label_studio_import(actor=member, name="Again", content=json.dumps(first).encode())
    second = label_studio_export(actor=member, task=again)

    def plain(rows):
        for row in rows:
            for annotation in row["annotations"]:
                annotation.pop("created_at")
                annotation.pop("lead_time")
        return rows

    assert [len(row["annotations"]) for row in first] == [3, 1, 0, 0]
    assert plain(second) == plain(first)
    assert again.fields == FORM
    settled = again.entries.get(position=0)
    assert (settled.status, settled.result, settled.settled_by) == ("settled", {"right": "Unclear"}, cleo.user.email)
    assert Label.objects.get(entry__task=again, user=anna.user, entry__position=0).values == full


def test_answers_that_no_field_can_hold_are_told(member):
    spans = [{"from_name": "ner", "type": "labels", "value": {"text": text, "labels": ["X"]}} for text in ("a", "b")]
    box = {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1}}
    rows = [{"data": {"text": "a b"}, "annotations": [{"completed_by": 1, "result": [*spans, box, "odd"]}]}]
    task, left_out = label_studio_import(actor=member, name="x", content=json.dumps(rows).encode())
    assert left_out == {"rectanglelabels": 1}
    assert Label.objects.get(entry__task=task).values == {"ner": ["a", "b"]}


def test_blind_export_holds_only_what_may_be_seen(task, anna, bert, member):
    entry, _ = services.entry_claim(actor=anna, task=task)
    services.label_submit(actor=anna, entry=entry, values={"right": "Yes"})
    assert [len(row["annotations"]) for row in label_studio_export(actor=bert, task=task)] == [0, 0, 0, 0]
    assert [len(row["annotations"]) for row in label_studio_export(actor=anna, task=task)] == [1, 0, 0, 0]


def test_other_json_is_refused(member):
    with pytest.raises(UserError, match="no list of tasks"):
        label_studio_import(actor=member, name="x", content=b'[{"a": 1}]')
    with pytest.raises(UserError, match="not JSON"):
        label_studio_import(actor=member, name="x", content=b"[")
