"""The full-text index follows the items: import, repairs, undo, copies."""

import pytest

from datasets import pages, repairs
from datasets.models import Item
from datasets.services import dataset_version_copy, dataset_version_freeze
from tests.datasets.helpers import import_bytes, jsonl, row

pytestmark = pytest.mark.django_db


def found(version, search: str, **options) -> list[str]:
    return [item.key for item in pages.item_page(version, search=search, **options).items]


@pytest.fixture
def version(member):
    rows = [
        row("Goods stored in Łódź, case C-155/12", topic="storage", id="a"),
        row("Ferry repaired in Split", topic="Ships", reference_answer="Croatia", id="b"),
        row("消費税はどこで課されますか", topic="日本", id="c"),
        row("Café Cristóbal", amount=1970670598291982290, split="test", id="d"),
        {"messages": [{"role": "user", "content": "Webinar"}, {"role": "assistant", "content": "Online"}], "id": "e"},
    ]
    return import_bytes(member, jsonl(*({"split": "train"} | each for each in rows)))


@pytest.mark.parametrize(
    ("search", "keys"),
    [
        ("stored goods", ["a"]),
        ('"goods stored"', ["a"]),
        ('"stored goods"', []),
        ("C-155/12", ["a"]),
        ("155", ["a"]),
        ("stor", ["a"]),
        ("fer cro", ["b"]),
        ("s*", ["a", "b"]),
        ("ship", ["b"]),
        ("in", ["a", "b"]),
        ("CROATIA ferry", ["b"]),
        ("消費税", ["c"]),
        ("課されますか", ["c"]),
        ("費消", []),
        ("cafe cristobal", ["d"]),
        ("1970670598291982290", ["d"]),
        ("online", ["e"]),
        ("user", []),
        ("' OR 1=1 --", []),
        ('goods AND NEAR( "', []),
        ("b", ["b"]),
    ],
)
def test_items_are_found_by_their_words(version, search, keys):
    assert found(version, search) == keys


def test_search_joins_the_other_filters(version):
    assert found(version, "cafe", split="test") == ["d"]
    assert found(version, "cafe", split="train") == []
    assert found(version, "webinar", problem="last_message_assistant") == ["e"]


def test_other_versions_are_not_found(member, version):
    other = import_bytes(member, jsonl(row("Goods stored elsewhere")), name="Other")
    assert found(other, "goods") == ["0001"]
    assert found(version, "goods") == ["a"]


def test_repairs_and_their_undo_are_followed(member, version):
    moved = repairs.kind_fix(actor=member, version=version, code="last_message_assistant")
    assert found(version, "online") == ["e"]
    edited = repairs.item_edit(actor=member, item=version.items.get(key="b"), value=row("Bridge", id="b"))
    assert (found(version, "ferry"), found(version, "bridge")) == ([], ["b"])
    dropped = repairs.items_drop(actor=member, version=version, keys=["a"])
    assert found(version, "goods") == []
    added = repairs.items_add(actor=member, version=version, rows=[row("Quay")])
    assert len(found(version, "quay")) == 1
    for change in (added, dropped, edited, moved):
        repairs.change_undo(actor=member, version=version, change_id=change.pk)
    assert [found(version, word) for word in ("quay", "goods", "ferry", "bridge", "online")] == [
        [], ["a"], ["b"], [], ["e"],
    ]  # fmt: skip


def test_items_that_never_came_into_the_index_do_not_break_it(member, version):
    raw = jsonl(row("Quay")).decode().strip()
    for n in range(4):
        Item.objects.create(version=version, position=10 + n, key=f"late{n}", raw=raw, digest=f"d{n}")
    repairs.items_drop(actor=member, version=version, keys=[f"late{n}" for n in range(4)])
    assert (found(version, "quay"), found(version, "goods")) == ([], ["a"])


def test_copy_of_a_version_is_found_by_the_same_words(member):
    frozen = dataset_version_freeze(actor=member, version=import_bytes(member, jsonl(row("Goods"), row("Ferry"))))
    copy = dataset_version_copy(actor=member, version=frozen)
    assert found(copy, "goods") == found(frozen, "goods") == ["0001"]


def test_pages_of_a_search_show_each_item_once(member):
    version = import_bytes(member, jsonl(*(row(f"Case {n}" if n % 2 else f"Other {n}") for n in range(240))))
    seen, after = [], None
    while True:
        page = pages.item_page(version, search="case", after=after)
        seen += [item.position for item in page.items]
        after = page.after
        if after is None:
            break
    assert seen == list(range(1, 240, 2))
    back = pages.item_page(version, search="case", before=page.items[0].pk)
    assert [item.position for item in back.items] == list(range(101, 201, 2))
    assert back.before is not None
