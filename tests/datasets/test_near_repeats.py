"""Almost equal questions: what is found, what is not, and that a set made of one template stays small."""

import random
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from datasets import near_finding, near_repeats, tasks
from datasets.models import DatasetVersion
from tests.datasets.helpers import import_bytes, jsonl, row

WORDS = [f"word{number}" for number in range(400)]


def text(draw: random.Random, length: int = 300) -> str:
    return " ".join(draw.choices(WORDS, k=length))


def pairs_of(*texts: str) -> list[tuple[int, int]]:
    signatures = near_repeats.Signatures(len(texts))
    signatures.add(texts)
    return [pair[:2] for pair in near_repeats.near_pairs(signatures)]


def test_changed_endings_are_found_and_different_texts_are_not():
    draw = random.Random(1)
    texts = [text(draw) for _ in range(300)]
    changed = [f"{each} and one more thing" if place % 3 == 0 else text(draw) for place, each in enumerate(texts)]
    assert pairs_of(*texts, *changed) == [(place, 300 + place) for place in range(0, 300, 3)]


def test_equal_texts_are_not_almost_equal():
    assert pairs_of("a b c d e", "a b c d e", "quite another one") == []


def test_one_template_gives_a_pair_for_each_item_at_most():
    same = text(random.Random(2), 200)
    found = pairs_of(*(f"{same} {number}" for number in range(3000)))
    assert [second for _, second in found] == list(range(1, 3000))


def test_leaks_come_first_and_are_all_counted(member, db, monkeypatch):
    monkeypatch.setattr(near_repeats, "MAX_PAIRS", 2)
    draw, rows = random.Random(3), []
    for number in range(6):
        said = text(draw)
        rows += [row(f"{said} one", split="train"), row(f"{said} two", split="test" if number > 3 else "train")]
    version = import_bytes(member, jsonl(*rows))
    near_finding.near_repeats_find(version_id=version.pk)
    near = DatasetVersion.objects.get().stats["near"]
    assert (near["count"], near["leaks"], near["looked_at"], near["of"]) == (6, 2, 12, 12)
    assert [pair["leak"] for pair in near["pairs"]] == [True, True]
    assert [pair["positions"] for pair in near["pairs"]] == [[8, 9], [10, 11]]


def test_leak_is_told_although_a_question_of_the_same_split_is_likelier(member, db):
    """The third is the second with one more word, and the first with two more: 40 of 42 word triples are shared."""
    first = " ".join(WORDS[:42])
    rows = [row(first, split="train"), row(f"{first} one", split="test"), row(f"{first} one two", split="test")]
    version = import_bytes(member, jsonl(*rows))
    near_finding.near_repeats_find(version_id=version.pk)
    near = DatasetVersion.objects.get().stats["near"]
    assert [pair["positions"] for pair in near["pairs"]] == [[0, 1], [0, 2]]
    assert (near["count"], near["leaks"]) == (2, 2)


def test_leak_is_told_although_many_of_the_same_split_stand_between(member, db):
    same = text(random.Random(4), 200)
    sides = ["train", "test", *["train"] * 20]
    version = import_bytes(member, jsonl(*(row(f"{same} {place}", split=side) for place, side in enumerate(sides))))
    near_finding.near_repeats_find(version_id=version.pk)
    near = DatasetVersion.objects.get().stats["near"]
    assert (near["count"], near["leaks"]) == (21, 21)


@pytest.fixture
def large(member, db, monkeypatch):
    """A version that is large enough for a worker, and was looked through before."""
    version = import_bytes(member, jsonl(row("a b c d e f"), row("g h i")))
    near_finding.near_repeats_find(version_id=version.pk)
    monkeypatch.setattr(near_finding, "FOUND_AT_ONCE", 1)
    version.refresh_from_db()
    return version


def test_large_version_is_looked_through_by_a_worker(member, large, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks() as queued:
        near_finding.near_repeats_start(actor=member, version=large)
        large.refresh_from_db()
        near_finding.near_repeats_start(actor=member, version=large)
    state = near_finding.near_state(large)
    assert (state.looking["looked_at"], state.looking["of"], state.is_stopped) == (0, 2, False)
    assert state.found["looked_at"] == 2, "the earlier result stays meanwhile"
    assert len(queued) == 1, "one look at a time"
    near_finding.near_repeats_find(version_id=large.pk)
    large.refresh_from_db()
    assert near_finding.near_state(large)[1:] == (None, False)


def test_look_of_a_dead_worker_ends_and_may_begin_again(member, large, client_of, django_capture_on_commit_callbacks):
    address = reverse("datasets:version-detail", args=[large.team.slug, large.public_id]) + "?tab=repeats"
    near_finding.near_repeats_start(actor=member, version=large)
    page = client_of(member).get(address).content.decode()
    assert "items looked at" in page
    assert "Look again</button>" not in page
    large.refresh_from_db()
    large.stats["near"]["looking"]["until"] = (timezone.now() - timedelta(seconds=1)).isoformat()
    large.save()
    page = client_of(member).get(address).content.decode()
    assert "stopped before its end" in page
    assert "Look again</button>" in page
    polled = client_of(member).get(reverse("datasets:near-found", args=[large.team.slug, large.public_id]))
    assert polled.status_code == 302
    with django_capture_on_commit_callbacks() as queued:
        near_finding.near_repeats_start(actor=member, version=large)
    assert len(queued) == 1


def test_large_version_is_not_looked_through_in_a_request_while_the_broker_is_away(
    member, large, monkeypatch, broker_away, django_capture_on_commit_callbacks
):
    broker_away(tasks.near_repeats_find)
    monkeypatch.setattr(near_finding, "near_repeats_find", lambda **_: pytest.fail("looked through in the request"))
    with django_capture_on_commit_callbacks(execute=True):
        near_finding.near_repeats_start(actor=member, version=large)
    large.refresh_from_db()
    assert near_finding.near_state(large)[1:] == (None, True)
