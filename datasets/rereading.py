"""Reading an uploaded file once more in another encoding, when its bytes are not UTF-8. The bytes stay as they came, so
it can be taken back by reading them as UTF-8 again."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from datasets import tasks
from datasets.formats import encodings
from datasets.formats.base import Row
from datasets.formats.jsonl import row_or_fault
from datasets.importing import check_encoding
from datasets.models import DatasetVersion, FileImport, LineProblem
from datasets.row_checks import question_of, reference_of
from datasets.services import file_import_run
from datasets.showing import plain
from rftstudio.core.errors import Conflict
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

FAULTS = ("not_utf8", "utf16", "utf32")
READ_AT_ONCE = 4 * 1024 * 1024
_WIDE_SAMPLE = 64 * 1024


def import_to_reread(version: DatasetVersion) -> FileImport | None:
    """The file whose encoding may be chosen: the newest one, when some of it is not UTF-8 or it was read in another.
    None for a frozen version and while a file is being read."""
    if version.status == DatasetVersion.Status.FROZEN:
        return None
    newest = version.imports.select_related("source_file").last()
    if newest is None or newest.status == FileImport.Status.RUNNING:
        return None
    is_foreign = newest.problems.filter(code__in=FAULTS, state=LineProblem.State.OPEN).exists()
    return newest if newest.encoding or is_foreign else None


def candidates_shown(file_import: FileImport) -> list[dict[str, Any]]:
    """The encodings that the file may be in, likeliest first, with a few of its lines as each would read them."""
    is_wide = (
        file_import.problems.filter(code__in=("utf16", "utf32")).exists() or file_import.encoding in encodings.WIDE
    )
    with file_import.source_file.content.open("rb") as stream:
        sample = _wide_sample(stream) if is_wide else encodings.foreign_sample(stream)
    if not sample:
        return []
    return [
        {
            "codec": each.codec,
            "label": each.label,
            "short": each.label.partition(" (")[0],
            "lines": [_as_read(line) for line in each.lines],
        }
        for each in encodings.candidates(sample, is_wide)
        if each.codec != file_import.encoding
    ]


def _wide_sample(stream: Any) -> bytes:
    sample = stream.read(_WIDE_SAMPLE)
    return sample[: len(sample) - len(sample) % 4]


def _as_read(line: str) -> str:
    """What a person would see of the line: question and reference of a row, else its text."""
    found = row_or_fault(line.encode(), 1, 0, 0)
    if not isinstance(found, Row):
        return line[:200]
    reference = reference_of(found.value)
    return " · ".join(
        filter(None, (question_of(found.value)[:160], "" if reference is None else plain(reference)[:60]))
    )


@transaction.atomic
def file_reread(*, actor: Actor, version: DatasetVersion, encoding: str) -> FileImport:
    """Take out what the newest file gave and import it again, in `encoding`; the empty text means UTF-8, as it came."""
    check_can(actor, Permission.DATASET_EDIT, team=version.team)
    check_encoding(encoding)
    version = DatasetVersion.objects.select_for_update().get(pk=version.pk)
    newest = version.imports.select_related("source_file").last()
    _check_may_reread(version, newest)
    if newest.encoding == encoding:
        return newest
    newest.problems.all().delete()
    kept_mapping = {} if "column_mapped" in newest.facts.get("notes", []) else newest.mapping
    now = timezone.now()  # it begins anew: with the old times the sweep would send a second worker at once
    FileImport.objects.filter(pk=newest.pk).update(
        status=FileImport.Status.RUNNING, encoding=encoding, mapping=kept_mapping, facts={}, records=0, offset=0, line=0,
        item_count=0, content_hash="", stats={}, report={}, started_at=now, updated_at=now,
    )  # fmt: skip
    DatasetVersion.objects.filter(pk=version.pk).update(status=DatasetVersion.Status.IMPORTING, progress={})
    audit(actor, "source_file.reread", newest.source_file, encoding=encoding or "utf-8", version=version.public_id)
    if newest.source_file.bytes > READ_AT_ONCE:
        queue(tasks.dataset_version_import, newest.pk)
    else:
        transaction.on_commit(lambda: file_import_run(file_import_id=newest.pk))
    return newest


def _check_may_reread(version: DatasetVersion, newest: FileImport | None) -> None:
    if version.status not in (DatasetVersion.Status.DRAFT, DatasetVersion.Status.FAILED):
        raise Conflict(f"{version} is {version.status}.", fix="Upload the file to a new version and choose there.")
    if newest is None or newest.status == FileImport.Status.RUNNING:
        raise Conflict("There is no file to read again.", fix="Upload one.")
    if version.changes.filter(undone_at=None, created_at__gt=newest.started_at).exists():
        raise Conflict("The version was changed since the import.", fix="Take these changes back first.")
    if version.label_tasks.exists():
        raise Conflict("People label these items.", fix="Import the file into a new version.")
