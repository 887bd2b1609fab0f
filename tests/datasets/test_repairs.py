"""Repairs of a draft, each of them undone as well."""

import pytest

from datasets import repairs
from datasets.models import LineProblem
from datasets.services import content_hash_of, dataset_version_freeze
from rftstudio.core.errors import Conflict, NotAllowed, UserError
from tests.datasets.helpers import import_bytes, jsonl, problems, row

pytestmark = pytest.mark.django_db


def chat(question: str, answer: str, **fields) -> dict:
    return {
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
        **fields,
    }


def state(version):
    version.refresh_from_db()
    return version.item_count, version.content_hash, list(version.items.order_by("position").values_list("key", "raw"))


def test_answers_move_to_the_reference_and_back(member):
    version = import_bytes(member, jsonl(chat("q1", "a1"), row("q2"), chat("q3", "a3", reference_answer="own")))
    before = state(version)
    change = repairs.kind_fix(actor=member, version=version, code="last_message_assistant")
    values = [item.data for item in version.items.order_by("position")]
    assert change.count == 2
    assert values[0] == {"messages": [{"role": "user", "content": "q1"}], "reference_answer": "a1"}
    assert values[2]["reference_answer"] == "own"
    assert not version.items.exclude(problem="").exists()
    dataset_version_freeze(actor=member, version=_copy(member, version))
    repairs.change_undo(actor=member, version=version, change_id=change.pk)
    assert state(version) == before
    assert version.content_hash == content_hash_of(version)


def _copy(member, version):
    from datasets.services import dataset_version_copy

    version.refresh_from_db()
    return dataset_version_copy(actor=member, version=version)


def test_doubled_ids_get_new_ones_and_back(member):
    version = import_bytes(member, jsonl(row("a", id="r1"), row("b", id="r1"), row("c", id="r1")))
    before = state(version)
    change = repairs.kind_fix(actor=member, version=version, code="duplicate_id")
    assert list(version.items.order_by("position").values_list("key", flat=True)) == ["r1", "r1-2", "r1-3"]
    assert not version.problems.filter(state=LineProblem.State.OPEN).exists()
    repairs.change_undo(actor=member, version=version, change_id=change.pk)
    assert state(version) == before
    assert version.problems.filter(state=LineProblem.State.OPEN).count() == 2


def test_nan_becomes_null(member):
    version = import_bytes(member, b'{"messages": [{"role": "user", "content": "q"}], "weight": NaN}\n')
    repairs.kind_fix(actor=member, version=version, code="nan_literal")
    assert version.items.get().data["weight"] is None


def test_line_edit_takes_the_line_in(member):
    version = import_bytes(member, jsonl(row("a")) + b'{"messages": [{"role": "user", "content": "b"}]\n')
    problem = version.problems.get()
    with pytest.raises(UserError, match="Column"):
        repairs.line_edit(actor=member, version=version, problem_id=problem.pk, text="{")
    repairs.line_edit(actor=member, version=version, problem_id=problem.pk, text=problem.text + "}")
    assert version.items.order_by("position").last().title == "b"
    assert version.items.order_by("position").last().line == 2


def test_skipped_lines_unblock_the_freeze_and_can_come_back(member):
    version = import_bytes(member, jsonl(row("a")) + b"{oops\n[1]\n")
    change = repairs.lines_skip(actor=member, version=version)
    assert change.count == 2
    repairs.change_undo(actor=member, version=version, change_id=change.pk)
    assert {state for _, _, state in problems(version)} == {"invalid_json", "not_an_object"}
    repairs.lines_skip(actor=member, version=version)
    assert dataset_version_freeze(actor=member, version=version).status == "frozen"


def test_later_copies_are_left_out_and_back(member):
    version = import_bytes(member, jsonl(row("a"), row("b"), row("a"), row("a")))
    before = state(version)
    change = repairs.items_drop(actor=member, version=version, code="duplicate_question")
    assert (change.count, state(version)[0]) == (2, 2)
    repairs.change_undo(actor=member, version=version, change_id=change.pk)
    assert state(version) == before


def test_columns_become_messages_in_the_draft(member):
    version = import_bytes(member, b'{"q": "a?", "a": 1}\n{"q": "b?", "a": 2}\n')
    repairs.items_map(actor=member, version=version, mapping={"prompt": "q", "reference": "a"})
    assert [item.title for item in version.items.order_by("position")] == ["a?", "b?"]


def test_only_the_newest_change_is_undone(member):
    version = import_bytes(member, jsonl(row("a"), row("b")))
    first = repairs.items_set(actor=member, version=version, field="topic", values={"0001": "x"}, title="Topics")
    repairs.items_set(actor=member, version=version, field="topic", values={"0001": "y"}, title="Topics")
    with pytest.raises(Conflict, match="since"):
        repairs.change_undo(actor=member, version=version, change_id=first.pk)


def test_rows_made_elsewhere_become_items(member):
    version = import_bytes(member, jsonl(row("a")))
    traced = repairs.trace_row(
        [{"role": "user", "content": "t?"}, {"role": "assistant", "content": "x"}], source="rollout"
    )
    repairs.items_add(actor=member, version=version, rows=[traced])
    assert version.items.order_by("position").last().data == {
        "messages": [{"role": "user", "content": "t?"}], "source": "rollout",
    }  # fmt: skip


def test_viewer_may_not_repair(member, viewer):
    version = import_bytes(member, jsonl(chat("q", "a")))
    with pytest.raises(NotAllowed):
        repairs.kind_fix(actor=viewer, version=version, code="last_message_assistant")
