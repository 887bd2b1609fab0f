"""Writes of files, datasets and versions. Repairs of a draft are in repairs.py; labels in labelling/."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from itertools import islice
from pathlib import PurePath
from typing import Any, BinaryIO

from django.core.files import File
from django.db import transaction
from django.db.models import Max, Sum
from django.utils import timezone
from django.utils.text import slugify

from datasets import changes, hashing, importing, readers, repeats, reports, selectors, tasks
from datasets.bulk import ITEM_COLUMNS, items_insert
from datasets.errors import VersionFrozen, VersionNotReady
from datasets.formats.base import FileRefused
from datasets.models import Dataset, DatasetVersion, FileImport, Item, SourceFile, Split
from datasets.row_mapping import TARGETS
from datasets.row_stats import Stats
from datasets.splitting import assign_splits
from datasets.words import item_words
from rftstudio.core import queueing
from rftstudio.core.errors import Conflict, NotFound, QuotaExceeded, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.selectors import storage_measured
from rftstudio.usage.services import check_storage

MAX_FILE_BYTES = 4 * 1024**3
SILENT_AFTER = timedelta(seconds=60)
COPIED_AT_ONCE = 1000


class _Hashed:
    """Reads through to the upload and takes its hash and length on the way, so that it is read once."""

    def __init__(self, content: BinaryIO) -> None:
        self.content, self.sha, self.size = content, hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        piece = self.content.read(size)
        self.sha.update(piece)
        self.size += len(piece)
        if self.size > MAX_FILE_BYTES:
            raise UserError("The file is larger than 4 GiB.", where="file", fix="Split it and import the parts.")
        return piece

    def chunks(self, size: int = 1024 * 1024):
        while piece := self.read(size):
            yield piece


class _Upload(File):
    def chunks(self, chunk_size: int | None = None):
        return self.file.chunks()


def source_file_upload(*, actor: Actor, filename: str, content: BinaryIO, purpose: str = "fine-tune") -> SourceFile:
    """Keep the bytes as they come, in constant memory."""
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    name = PurePath(filename.replace("\\", "/").replace("\x00", "")).name[:255] or "upload"
    hashed = _Hashed(content)
    row = SourceFile(team=actor.team, created_by=actor.user, filename=name, bytes=0, purpose=purpose)
    stored = f"{row.public_id}{PurePath(name).suffix[:12]}"
    row.content.save(stored, _Upload(hashed, name=stored), save=False)
    row.bytes, row.sha256 = hashed.size, hashed.sha.hexdigest()
    try:
        _check_room(actor.team, row.bytes)
    except QuotaExceeded:
        row.content.delete(save=False)
        raise
    with transaction.atomic():
        row.save()
        audit(actor, "source_file.uploaded", row, filename=name, bytes=row.bytes)
    return row


def _check_room(team: Team, more: int) -> None:
    """What was last counted, and what came since, leave room for this."""
    used, at = storage_measured(team=team)
    since = SourceFile.objects.filter(team=team)
    since = since.filter(created_at__gt=at) if at else since
    used += since.aggregate(sum=Sum("bytes"))["sum"] or 0
    check_storage(team=team, used_bytes=used, more_bytes=more)


@transaction.atomic
def dataset_create(*, actor: Actor, name: str) -> Dataset:
    """Start a named line of versions."""
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    name = " ".join(name.split())
    if not name or len(name) > 120:
        raise UserError("A dataset needs a name of at most 120 characters.", where="name", fix="Choose a name.")
    slug = slugify(name)[:120] or hashlib.sha256(name.encode()).hexdigest()[:12]
    if Dataset.objects.filter(team=actor.team, slug=slug).exists():
        raise Conflict(f"There is a dataset named {name} already.", where="name", fix="Choose another name.")
    dataset = Dataset.objects.create(team=actor.team, created_by=actor.user, name=name, slug=slug)
    audit(actor, "dataset.created", dataset, name=name)
    return dataset


def dataset_version_import(
    *,
    actor: Actor,
    dataset: Dataset,
    source_file: SourceFile,
    mapping: dict[str, str] | None = None,
    split: str = "",
    add_to: DatasetVersion | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> DatasetVersion:
    """Import the file to its end, in this process, as a new version or into the draft `add_to`.

    An import of the same bytes that was interrupted is taken up where it stopped. A file that is no data leaves a
    version with status failed, whose report says what the file is.
    """
    started = dataset_version_import_start(
        actor=actor, dataset=dataset, source_file=source_file, mapping=mapping, split=split, add_to=add_to, queue=False
    )
    if not file_import_run(file_import_id=started.pk, on_progress=on_progress):
        raise Conflict("Another process is importing this file.", where="file", fix="Wait until it has ended.")
    started.version.refresh_from_db()
    return started.version


@transaction.atomic
def dataset_version_import_start(
    *,
    actor: Actor,
    dataset: Dataset,
    source_file: SourceFile,
    mapping: dict[str, str] | None = None,
    split: str = "",
    encoding: str = "",
    add_to: DatasetVersion | None = None,
    queue: bool = True,
) -> FileImport:
    """Make the version and queue its import; an unfinished import of the same bytes is returned instead. With `split`
    the whole file goes to one side, whatever its rows say."""
    check_can(actor, Permission.DATASET_EDIT, team=dataset.team)
    if source_file.team_id != dataset.team_id:
        raise NotFound("There is nothing at this address.")
    mapping = {target: column for target, column in (mapping or {}).items() if column}
    _check_mapping(mapping)
    importing.check_encoding(encoding)
    if split and split not in Split.values:
        raise UserError(f"{split!r} is no split.", where="split", fix=f"Use {', '.join(Split.values)}, or none.")
    Dataset.objects.select_for_update().get(pk=dataset.pk)
    waiting = _unfinished(dataset, source_file, mapping=mapping, split=split, encoding=encoding)
    if waiting is None:
        version = _version_for_import(actor, dataset, source_file, add_to)
        waiting = FileImport.objects.create(
            version=version,
            source_file=source_file,
            mapping=mapping,
            split=split,
            encoding=encoding,
            first_position=_next_position(version),
        )
        audit(actor, "dataset_version.import_started", version, source_file=source_file.public_id)
    if queue:
        queueing.queue(tasks.dataset_version_import, waiting.pk)
    return waiting


def _check_mapping(mapping: dict[str, str]) -> None:
    unknown = mapping.keys() - set(TARGETS)
    if unknown or (mapping and "prompt" not in mapping):
        raise UserError(
            f"A mapping names {', '.join(TARGETS)}, and always a prompt.",
            where="mapping",
            fix="Choose the question's column.",
        )


def _unfinished(dataset: Dataset, source_file: SourceFile, **asked: Any) -> FileImport | None:
    return (
        FileImport.objects.filter(
            version__dataset=dataset, source_file__sha256=source_file.sha256, status=FileImport.Status.RUNNING, **asked
        )
        .select_related("version", "source_file")
        .last()
    )  # fmt: skip


def _version_for_import(
    actor: Actor, dataset: Dataset, source_file: SourceFile, add_to: DatasetVersion | None
) -> DatasetVersion:
    if add_to is None:
        return version_start(
            actor=actor, dataset=dataset, source_file=source_file, status=DatasetVersion.Status.IMPORTING
        )
    check_draft(add_to)
    if add_to.dataset_id != dataset.pk:
        raise NotFound("There is nothing at this address.")
    DatasetVersion.objects.filter(pk=add_to.pk).update(status=DatasetVersion.Status.IMPORTING, progress={})
    return DatasetVersion.objects.get(pk=add_to.pk)


def _next_position(version: DatasetVersion) -> int:
    last = Item.objects.filter(version=version).aggregate(last=Max("position"))["last"]
    return 0 if last is None else last + 1


def version_start(
    *, actor: Actor, dataset: Dataset, source_file: SourceFile | None = None, status: str = DatasetVersion.Status.DRAFT
) -> DatasetVersion:
    """The next number of the line. For the services of this room, after their check of rights."""
    last = dataset.versions.aggregate(last=Max("number"))["last"] or 0
    return DatasetVersion.objects.create(
        team=dataset.team,
        created_by=actor.user,
        dataset=dataset,
        number=last + 1,
        status=status,
        source_file=source_file,
    )


def file_import_run(*, file_import_id: int, on_progress: Callable[[dict[str, Any]], None] | None = None) -> bool:
    """Bring an import to its end. Safe to call twice and at once; False means that another process does it."""
    file_import = FileImport.objects.select_related("version", "source_file").get(pk=file_import_id)
    if file_import.status != FileImport.Status.RUNNING:
        return True
    questions = None
    try:
        if file_import.records == 0:  # before the file is looked at: it may be refused whole
            _earlier_reading_remove(file_import)
        _look_at_file(file_import)
        questions = importing.run(file_import, on_progress)
    except FileRefused as refused:
        importing.refuse(file_import, refused)
    except importing.Overtaken:
        return False
    _import_finish(file_import, questions)
    return True


def _earlier_reading_remove(file_import: FileImport) -> None:
    """The items of the same file as it was read before, in another encoding. In pieces, so that it may be killed; never
    those of another process that has begun to read it anew."""
    earlier = Item.objects.filter(version=file_import.version_id, position__gte=file_import.first_position)
    while earlier.exists():
        with transaction.atomic():
            unread = FileImport.objects.filter(pk=file_import.pk, records=0, status=FileImport.Status.RUNNING)
            if not unread.update(updated_at=timezone.now()):  # locks it, and tells the sweep that someone is at work
                raise importing.Overtaken
            changes.items_delete(list(earlier.order_by("position")[:COPIED_AT_ONCE]))


def _look_at_file(file_import: FileImport) -> None:
    """Name the format and settle the mapping, once."""
    if file_import.facts:
        return
    with file_import.source_file.content.open("rb") as stream:
        facts = readers.facts_of(stream, file_import.source_file.filename, file_import.encoding)
        first = readers.first_rows(stream, facts, 20)
        if facts.format == "json_array":
            facts.notes.append("json_array")
        if file_import.mapping:
            _check_columns(file_import.mapping, {name for row in first for name in row.value})
        elif suggested := readers.suggested_mapping(first, facts):
            file_import.mapping = suggested
            facts.notes.append("column_mapped")
    file_import.facts = asdict(facts)
    file_import.save(update_fields=["facts", "mapping"])


def _check_columns(mapping: dict[str, str], columns: set[str]) -> None:
    missing = [column for column in mapping.values() if column not in columns]
    if missing and columns:
        raise FileRefused(
            "unknown_column",
            f"The file has no column {missing[0]!r}. It has {', '.join(sorted(columns)[:20])}.",
            "Choose one of these columns.",
        )


def _import_finish(file_import: FileImport, questions: importing.Questions | None) -> None:
    """Settle splits, repeats, report and hash; runs once, whoever comes first."""
    file_import.refresh_from_db()
    version, stats = file_import.version, Stats(file_import.stats)
    is_refused = file_import.status == FileImport.Status.FAILED
    is_partly_split = 0 < sum(stats.splits.values()) < stats.rows
    if is_partly_split:
        Item.objects.filter(version=version, position__gte=file_import.first_position).update(split=Split.TRAIN)
    found = repeats.repeats_find(version, None if is_partly_split else questions)
    report = reports.report_make(file_import, repeats.repeated_lines(found, file_import.first_position))
    count = Item.objects.filter(version=version).count()
    with transaction.atomic():
        FileImport.objects.filter(pk=file_import.pk).update(
            status=FileImport.Status.FAILED if is_refused else FileImport.Status.DONE, report=report
        )
        whole = Stats()
        for each in version.imports.all():
            whole.merge(Stats(each.stats))
        is_counted_anew = version.grew_from_id or version.changes.exists()
        failed = is_refused and count == 0
        DatasetVersion.objects.filter(pk=version.pk, status=DatasetVersion.Status.IMPORTING).update(
            status=DatasetVersion.Status.FAILED if failed else DatasetVersion.Status.DRAFT,
            item_count=count,
            content_hash=_hash_after(version, file_import),
            report=report,
            stats=whole.summary() | {"repeats": found},
        )
        if is_counted_anew:
            version.refresh_from_db()
            changes.recount(version)


def _hash_after(version: DatasetVersion, file_import: FileImport) -> str:
    return file_import.content_hash or hashing.EMPTY if file_import.first_position == 0 else content_hash_of(version)


def content_hash_of(version: DatasetVersion) -> str:
    """SHA-256 chained over the items' digests in order; splits and labels beside the rows do not count."""
    digests = Item.objects.filter(version=version).order_by("position").values_list("digest", flat=True)
    return hashing.chain("", digests.iterator(chunk_size=5000))


def imports_sweep() -> int:
    """Queue again the imports that nobody has moved for a minute."""
    silent = FileImport.objects.filter(
        status=FileImport.Status.RUNNING, updated_at__lt=timezone.now() - SILENT_AFTER
    ).values_list("pk", flat=True)
    for file_import_id in silent:
        tasks.dataset_version_import.delay(file_import_id)
    return len(silent)


def check_draft(version: DatasetVersion) -> None:
    """Raise unless the version may be changed."""
    status = DatasetVersion.objects.values_list("status", flat=True).get(pk=version.pk)
    if status == DatasetVersion.Status.FROZEN:
        raise VersionFrozen(f"{version} is frozen.", fix="Make a new version from it and change that.")
    if status != DatasetVersion.Status.DRAFT:
        raise Conflict(f"{version} is {status}.", fix="Wait until the import has ended.")


@transaction.atomic
def dataset_version_split(
    *, actor: Actor, version: DatasetVersion, shares: dict[str, float], seed: int = 0, group_field: str = ""
) -> DatasetVersion:
    """Deal the items to train, validation and test by share. Equal conversations, and items with the same value of
    `group_field`, stay on one side."""
    check_can(actor, Permission.DATASET_EDIT, team=version.team)
    check_draft(version)
    if not shares or shares.keys() - set(Split.values) or any(share < 0 for share in shares.values()):
        raise UserError(
            "Shares name train, validation and test, none below zero.", where="shares", fix="Check the shares."
        )
    if not 0.999 <= sum(shares.values()) <= 1.001:
        raise UserError("The shares do not add up to 1.", where="shares", fix="Let them add up to 100 %.")
    sides = assign_splits(_grouped(version, group_field), shares, seed)
    for split, ids in sides.items():
        for start in range(0, len(ids), 900):
            Item.objects.filter(pk__in=ids[start : start + 900]).update(split=split)
    version.stats = version.stats | {"repeats": repeats.repeats_find(version)}
    version.save(update_fields=["stats", "updated_at"])
    audit(actor, "dataset_version.split", version, shares=shares, seed=seed, group_field=group_field)
    return version


def _grouped(version: DatasetVersion, group_field: str):
    """`(item id, group)` in order: the group field's value, else the conversation itself."""
    items = Item.objects.filter(version=version).order_by("position")
    if not group_field:
        for pk, value, digest in items.values_list("pk", "question_hash", "digest").iterator(chunk_size=5000):
            yield pk, str(value) if value else digest
        return
    if group_field not in version.stats.get("fields", {}):
        known = ", ".join(sorted(version.stats.get("fields", {})))
        raise UserError(f"There is no field {group_field!r}.", where="group_field", fix=f"Choose one of: {known}.")
    for item in items.iterator(chunk_size=1000):
        value = item.data.get(group_field)
        yield item.pk, item.digest if value is None else hashing.canonical_bytes(value).hex()


@transaction.atomic
def dataset_version_freeze(*, actor: Actor, version: DatasetVersion) -> DatasetVersion:
    """Make the version unchangeable, so that runs may point at it. A frozen one stays as it is."""
    check_can(actor, Permission.DATASET_EDIT, team=version.team)
    version.refresh_from_db()
    if version.status == DatasetVersion.Status.FROZEN:
        return version
    check_draft(version)
    blocking = [gate.text for gate in selectors.version_gates(version) if gate.state == "bad"]
    if blocking:
        raise VersionNotReady(
            f"{version} cannot be frozen yet: {'; '.join(blocking)}.", fix="Fix or skip them on the version's page."
        )
    DatasetVersion.objects.filter(pk=version.pk, status=DatasetVersion.Status.DRAFT).update(
        status=DatasetVersion.Status.FROZEN, frozen_at=timezone.now(), content_hash=content_hash_of(version)
    )
    version.refresh_from_db()
    audit(actor, "dataset_version.frozen", version, content_hash=version.content_hash)
    return version


@transaction.atomic
def dataset_version_copy(*, actor: Actor, version: DatasetVersion) -> DatasetVersion:
    """The next version, a draft with the same items, to grow from a frozen one."""
    check_can(actor, Permission.DATASET_EDIT, team=version.team)
    if version.status not in (DatasetVersion.Status.FROZEN, DatasetVersion.Status.DRAFT):
        raise Conflict(f"{version} is {version.status}.", fix="Wait until the import has ended.")
    Dataset.objects.select_for_update().get(pk=version.dataset_id)
    made = version_start(actor=actor, dataset=version.dataset)
    names = [name for name in ITEM_COLUMNS if name != "version_id"]
    items = Item.objects.filter(version=version).order_by("position").iterator(chunk_size=COPIED_AT_ONCE)
    while batch := list(islice(items, COPIED_AT_ONCE)):
        rows = [(made.pk, *(getattr(item, name) for name in names)) for item in batch]
        items_insert(rows, [item_words(item.key, item.data) for item in batch])
    made.grew_from = version
    for name in ("item_count", "content_hash", "stats"):
        setattr(made, name, getattr(version, name))
    made.report = {"rows": version.item_count, "warnings": version.report.get("warnings", [])}
    made.save()
    audit(actor, "dataset_version.copied", made, grew_from=version.public_id)
    return made


@transaction.atomic
def dataset_draft(*, actor: Actor, dataset: Dataset) -> DatasetVersion:
    """The version that may grow: the newest draft, a copy of a newest frozen one, else an empty one."""
    check_can(actor, Permission.DATASET_EDIT, team=dataset.team)
    newest = dataset.versions.exclude(status=DatasetVersion.Status.FAILED).order_by("-number").first()
    if newest is None:
        return version_start(actor=actor, dataset=dataset)
    return newest if newest.status == DatasetVersion.Status.DRAFT else dataset_version_copy(actor=actor, version=newest)


def version_recount(*, version_id: int) -> None:
    """Statistics of a draft from its items, after a change of a large one."""
    version = DatasetVersion.objects.get(pk=version_id)
    if version.status == DatasetVersion.Status.DRAFT:
        changes.recount(version)
