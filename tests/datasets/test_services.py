"""Services of files, datasets and versions."""

import io
import json

import pytest

from datasets import importing, near_finding, services
from datasets.errors import VersionFrozen, VersionNotReady
from datasets.models import Dataset, DatasetVersion, FileImport, Item, SourceFile
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.models import AuditEvent
from tests.datasets.helpers import import_bytes, jsonl, problems, row, warning

pytestmark = pytest.mark.django_db


def many(count: int, **fields) -> bytes:
    return jsonl(*(row(f"What is {n} plus 1?", reference_answer=str(n + 1), **fields) for n in range(count)))


def test_source_file_upload_keeps_the_bytes_and_their_hash(member):
    kept = services.source_file_upload(actor=member, filename="C:\\x\\..\\rows.jsonl", content=io.BytesIO(b"abc\r\n"))
    assert (kept.filename, kept.bytes) == ("rows.jsonl", 5)
    assert kept.content.open().read() == b"abc\r\n"
    assert kept.sha256.startswith("c3dbebf5b6a5a9a5") or len(kept.sha256) == 64
    assert AuditEvent.objects.filter(verb="source_file.uploaded").exists()


def test_viewer_may_not_upload_or_create(viewer):
    with pytest.raises(NotAllowed):
        services.source_file_upload(actor=viewer, filename="a.jsonl", content=io.BytesIO(b"x"))
    with pytest.raises(NotAllowed):
        services.dataset_create(actor=viewer, name="Sums")
    assert not SourceFile.objects.exists()
    assert not Dataset.objects.exists()


def test_dataset_name_is_taken_once_per_team(member, stranger):
    services.dataset_create(actor=member, name="Sums")
    services.dataset_create(actor=stranger, name="Sums")
    with pytest.raises(Conflict, match="already"):
        services.dataset_create(actor=member, name="  sums ")


def test_import_of_a_foreign_file_is_not_found(member, stranger):
    foreign = services.source_file_upload(actor=stranger, filename="a.jsonl", content=io.BytesIO(many(2)))
    dataset = services.dataset_create(actor=member, name="Sums")
    with pytest.raises(NotFound):
        services.dataset_version_import(actor=member, dataset=dataset, source_file=foreign)


def test_import_makes_numbered_versions_of_a_dataset(member):
    first = import_bytes(member, many(3))
    second = import_bytes(member, many(4), dataset=first.dataset)
    assert (first.number, second.number) == (1, 2)
    assert first.items.count() == 3
    assert second.status == DatasetVersion.Status.DRAFT


def test_import_keeps_the_exact_text_of_each_line(member):
    line = '{"messages":[{"content":"a\\u00e9\\/b","role":"user"}],  "n":1.10, "big":123456789012345678901234567890}'
    version = import_bytes(member, line.encode() + b"\n")
    item = version.items.get()
    assert item.raw == line
    assert item.data["big"] == 123456789012345678901234567890


def test_import_mapping_makes_messages(member):
    content = b'{"q": "Two plus two?", "a": 4, "note": "x"}\n{"q": "", "a": 1}\n'
    version = import_bytes(member, content, mapping={"prompt": "q", "reference": "a"})
    value = version.items.get().data
    assert value == {"messages": [{"role": "user", "content": "Two plus two?"}], "reference_answer": 4, "note": "x"}
    assert problems(version) == [(2, 1, "prompt_missing")]


def test_import_mapping_of_an_unknown_column_names_those_there_are(member):
    version = import_bytes(member, b'{"q": "x"}\n', mapping={"prompt": "question"})
    assert version.status == DatasetVersion.Status.FAILED
    assert "'question'" in version.problems.get().message
    assert "It has q" in version.problems.get().message


def test_own_split_is_honoured_when_every_row_has_one(member):
    content = jsonl(row("a", split="train"), row("b", split="validation"), row("c", split="test"))
    version = import_bytes(member, content)
    assert list(version.items.order_by("position").values_list("split", flat=True)) == ["train", "validation", "test"]


def test_own_split_of_some_rows_is_left_aside_and_said(member):
    version = import_bytes(member, jsonl(row("a", split="test"), row("b")))
    assert set(version.items.values_list("split", flat=True)) == {"train"}
    assert warning(version, "split_incomplete")


@pytest.mark.parametrize("stop_after", [1, 3])
def test_killed_import_goes_on_and_ends_with_the_same_hash(member, monkeypatch, stop_after):
    monkeypatch.setattr(importing, "BATCH_ROWS", 10)
    content = many(75) + b"{broken\n"
    whole = import_bytes(member, content, name="whole")
    source_file = services.source_file_upload(actor=member, filename="a.jsonl", content=io.BytesIO(content))
    dataset = services.dataset_create(actor=member, name="killed")
    store, calls = importing._Writer.store, []

    def dies(writer):
        if len(calls) == stop_after:
            raise KeyboardInterrupt
        calls.append(1)
        return store(writer)

    monkeypatch.setattr(importing._Writer, "store", dies)
    with pytest.raises(KeyboardInterrupt):
        services.dataset_version_import(actor=member, dataset=dataset, source_file=source_file)
    monkeypatch.setattr(importing._Writer, "store", store)
    half = dataset.versions.get()
    assert (half.status, half.items.count()) == (DatasetVersion.Status.IMPORTING, stop_after * 10)
    again = services.dataset_version_import(actor=member, dataset=dataset, source_file=source_file)
    assert again.pk == half.pk
    assert again.content_hash == whole.content_hash
    assert again.report["fields"] == whole.report["fields"]
    assert problems(again) == problems(whole)
    assert again.stats["lengths"] == whole.stats["lengths"]


def test_import_that_another_process_does_gives_no_half_version(member, monkeypatch):
    source_file = services.source_file_upload(
        actor=member, filename="a.jsonl", content=io.BytesIO(b'{"prompt": "x"}\n')
    )
    dataset = services.dataset_create(actor=member, name="taken")
    monkeypatch.setattr(services, "file_import_run", lambda **_: False)  # what it says while another holds the import
    with pytest.raises(Conflict, match="Another process"):
        services.dataset_version_import(actor=member, dataset=dataset, source_file=source_file)


def test_two_imports_at_once_store_each_row_once(member, monkeypatch):
    monkeypatch.setattr(importing, "BATCH_ROWS", 10)
    source_file = services.source_file_upload(actor=member, filename="a.jsonl", content=io.BytesIO(many(35)))
    dataset = services.dataset_create(actor=member, name="twice")
    started = services.dataset_version_import_start(actor=member, dataset=dataset, source_file=source_file, queue=False)
    store, seen = importing._Writer.store, []

    def overtaken(writer):
        if not seen:
            seen.append(1)
            assert services.file_import_run(file_import_id=started.pk)
        return store(writer)

    monkeypatch.setattr(importing._Writer, "store", overtaken)
    assert not services.file_import_run(file_import_id=started.pk)
    assert Item.objects.filter(version=started.version).count() == 35
    assert services.file_import_run(file_import_id=started.pk)


def test_imports_sweep_queues_silent_imports_again(member, monkeypatch, django_capture_on_commit_callbacks):
    source_file = services.source_file_upload(actor=member, filename="a.jsonl", content=io.BytesIO(many(5)))
    dataset = services.dataset_create(actor=member, name="silent")
    services.dataset_version_import_start(actor=member, dataset=dataset, source_file=source_file, queue=False)
    monkeypatch.setattr(services.tasks.dataset_version_import, "delay", services.tasks.dataset_version_import)
    assert services.imports_sweep() == 0
    FileImport.objects.update(updated_at="2020-01-01T00:00:00Z")
    assert services.imports_sweep() == 1
    assert dataset.versions.get().status == DatasetVersion.Status.DRAFT


def test_split_by_share_is_seeded_and_exact(member):
    version = import_bytes(member, many(50))
    shares = {"train": 0.8, "validation": 0.1, "test": 0.1}
    services.dataset_version_split(actor=member, version=version, shares=shares, seed=1)
    first = list(version.items.order_by("position").values_list("split", flat=True))
    assert {side: first.count(side) for side in shares} == {"train": 40, "validation": 5, "test": 5}
    services.dataset_version_split(actor=member, version=version, shares=shares, seed=2)
    assert first != list(version.items.order_by("position").values_list("split", flat=True))
    services.dataset_version_split(actor=member, version=version, shares=shares, seed=1)
    assert first == list(version.items.order_by("position").values_list("split", flat=True))


def test_split_keeps_a_group_and_equal_questions_on_one_side(member):
    rows = [row(f"q{n // 2}", reference_answer=n, client=f"c{n % 7}") for n in range(60)]
    version = import_bytes(member, jsonl(*rows))
    shares = {"train": 0.5, "validation": 0.5}
    services.dataset_version_split(actor=member, version=version, shares=shares, group_field="client")
    sides = {}
    for item in version.items.all():
        sides.setdefault(item.data["client"], set()).add(item.split)
    assert all(len(split) == 1 for split in sides.values())
    services.dataset_version_split(actor=member, version=version, shares=shares)
    version.refresh_from_db()
    assert version.stats["repeats"]["leaks"] == 0


def test_split_by_an_unknown_field_names_those_there_are(member):
    version = import_bytes(member, many(4))
    with pytest.raises(UserError, match="messages, reference_answer"):
        services.dataset_version_split(actor=member, version=version, shares={"train": 1}, group_field="client")


def test_freeze_makes_the_version_unchangeable(member):
    version = services.dataset_version_freeze(actor=member, version=import_bytes(member, many(12)))
    assert version.status == DatasetVersion.Status.FROZEN
    assert len(version.content_hash) == 64
    with pytest.raises(VersionFrozen):
        services.dataset_version_split(actor=member, version=version, shares={"train": 1})
    assert services.dataset_version_freeze(actor=member, version=version).frozen_at == version.frozen_at


def test_freeze_with_open_lines_or_faults_is_refused(member):
    version = import_bytes(member, many(2) + b"{oops\n" + json.dumps({"a": 1}).encode())
    with pytest.raises(VersionNotReady, match="1 lines to fix or skip") as refusal:
        services.dataset_version_freeze(actor=member, version=version)
    assert "There is no conversation" in str(refusal.value)


def test_viewer_may_not_freeze(member, viewer):
    version = import_bytes(member, many(2))
    with pytest.raises(NotAllowed):
        services.dataset_version_freeze(actor=viewer, version=version)


def test_stranger_finds_nothing_to_freeze(member, stranger):
    version = import_bytes(member, many(2))
    with pytest.raises(NotFound):
        services.dataset_version_freeze(actor=stranger, version=version)


def test_repeats_and_leaks_are_counted(member):
    content = jsonl(row("a", split="train"), row("a", split="test"), row("b", split="train"), row("b", split="train"))
    version = import_bytes(member, content)
    found = version.stats["repeats"]
    assert (found["count"], found["leaks"]) == (2, 1)
    assert warning(version, "duplicate_question")["lines"] == [2, 4]


def test_near_repeats_are_found_in_the_background(member):
    text = (
        "A German company stores goods for a Dutch retailer in its warehouse. Where is the service taxed, and by whom{}"
    )
    version = import_bytes(member, jsonl(row(text.format("?")), row(text.format(" then?")), row("Something else here")))
    near_finding.near_repeats_find(version_id=version.pk)
    version.refresh_from_db()
    pairs = version.stats["near"]["pairs"]
    assert [(pair["first"], pair["second"]) for pair in pairs] == [("0001", "0002")]


def test_copy_of_a_frozen_version_is_a_draft_with_the_same_items(member):
    frozen = services.dataset_version_freeze(actor=member, version=import_bytes(member, many(5)))
    made = services.dataset_version_copy(actor=member, version=frozen)
    assert (made.number, made.status, made.grew_from) == (2, DatasetVersion.Status.DRAFT, frozen)
    assert made.content_hash == frozen.content_hash
    assert list(made.items.order_by("position").values_list("key", "raw")) == list(
        frozen.items.order_by("position").values_list("key", "raw")
    )
    grown = import_bytes(member, jsonl(row("new")), dataset=made.dataset, add_to=made)
    assert (grown.item_count, grown.stats["rows"]) == (6, 6)
