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
    return label_studio_import(actor=member, name=name, content=(CASES / path).read_bytes())


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


def test_export_of_an_import_of_an_export_is_the_same(member, task, anna, bert):
    for actor, values in ((anna, {"right": "Yes", "note": "=1+1"}), (bert, {"right": "No"})):
        entry, _ = services.entry_claim(actor=actor, task=task)
        services.label_submit(actor=actor, entry=entry, values=values)
    first = label_studio_export(actor=member, task=task)
    again = label_studio_import(actor=member, name="Again", content=json.dumps(first).encode())
    second = label_studio_export(actor=member, task=again)

    def plain(rows):
        for row in rows:
            for annotation in row["annotations"]:
                annotation.pop("created_at")
                annotation.pop("lead_time")
        return rows

    assert len(first[0]["annotations"]) == 2
    assert plain(second) == plain(first)


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
