"""Files as the REST door keeps them: uploaded, looked through, listed, deleted, expired.

The look finds what the import would find, without making items: the status is `processed` or `error` with the first lines
at fault. A job that names a file reads it anew, whatever the look said.
"""

from collections import defaultdict
from datetime import date, timedelta
from pathlib import PurePath
from typing import Any, BinaryIO

from django.db import IntegrityError, transaction
from django.db.models import F, ProtectedError, Q, QuerySet
from django.utils import timezone

from datasets import readers
from datasets.formats.base import BadLine, FileRefused, Row
from datasets.models import SourceFile
from datasets.row_checks import FAULTS, row_fault
from datasets.services import source_file_upload
from rftstudio.core.errors import NotFound, UserError
from rftstudio.core.queueing import queue
from rftstudio.orders import tasks
from rftstudio.orders.models import FileNote
from rftstudio.orders.shown_rows import SHOWN_LINES, fault_of, is_shown
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.services import notice_once

PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
MAX_BYTES = 512 * 1000**2
#: Larger files are looked through by a worker; the status is `uploaded` meanwhile.
LOOK_AT_ONCE = 8_000_000
WARNING = timedelta(days=3)
EXPIRY_SECONDS = (3600, 2_592_000)
Status = FileNote.Status


def file_upload(
    *, actor: Actor, filename: str, content: BinaryIO, purpose: str, size: int, expires_in: int | None = None
) -> SourceFile:
    """Keep the bytes and look through them."""
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    if purpose not in PURPOSES:
        raise UserError(f"'{purpose}' is not one of {list(PURPOSES)} - 'purpose'.", where="purpose")
    if purpose == "fine-tune" and PurePath(filename).suffix.lower() != ".jsonl":
        raise UserError(
            f"{filename!r} is no .jsonl file, which fine-tuning needs.",
            where="file",
            fix="Give it a name that ends in .jsonl. CSV, Parquet and other tables are read on the page of datasets.",
        )
    if size == 0:
        raise UserError("The file is empty.", where="file", fix="Choose a file with at least one row.")
    if size > MAX_BYTES:
        raise UserError("The file is larger than 512 MB.", where="file", fix="Split it and upload the parts.")
    row = source_file_upload(actor=actor, filename=filename, content=content, purpose=purpose)
    expires_at = timezone.now() + timedelta(seconds=expires_in) if expires_in else None
    FileNote.objects.create(source_file=row, expires_at=expires_at)
    if row.bytes <= LOOK_AT_ONCE or purpose != "fine-tune":
        file_check(source_file_id=row.pk)
    else:
        queue(tasks.file_check, row.pk)
    return SourceFile.objects.select_related("note").get(pk=row.pk)


def file_check(*, source_file_id: int) -> None:
    """Look a file through and note its status. Again gives the same."""
    row = SourceFile.objects.filter(pk=source_file_id).first()
    if row is None:
        return
    fault = _look(row) if row.purpose == "fine-tune" else ""
    FileNote.objects.filter(source_file=row).update(
        status=Status.ERROR if fault else Status.PROCESSED, status_details=fault
    )


def _look(row: SourceFile) -> str:
    """What keeps the file from being trained on, with the first lines at fault; nothing where it is sound."""
    found: list[str] = []
    rows, bad, shown = 0, 0, None
    try:
        with row.content.open("rb") as stream:
            for event in readers.read(stream, readers.facts_of(stream, row.filename)):
                if isinstance(event, Row):
                    rows += 1
                    shown = is_shown(event.value) if shown is None else shown
                if words := _fault_words(event, is_shown=bool(shown)):
                    bad += 1
                    found = found if len(found) >= SHOWN_LINES else [*found, words]
    except FileRefused as refused:
        return f"{refused.message} {refused.fix}"
    except FileNotFoundError:
        return "The bytes of this file are gone."
    if not rows and not bad:
        return "The file holds no rows."
    more = f" And {bad - len(found):,} more lines." if bad > len(found) else ""
    return " ".join(found) + more


def _fault_words(event: Any, *, is_shown: bool) -> str:
    """What is wrong with a line. Whether the file is of chats with answers or of questions, its first row says."""
    if is_shown or isinstance(event, BadLine):
        return fault_of(event)
    if isinstance(event, Row) and (code := row_fault(event.value)):
        return f"Line {event.line}: {FAULTS[code].message} {FAULTS[code].fix}"
    return ""


def file_list(*, team: Team) -> QuerySet[SourceFile]:
    """Those that stand at the door: neither deleted nor expired."""
    gone = Q(note__deleted_at__isnull=False) | Q(note__expires_at__lte=timezone.now())
    return SourceFile.objects.filter(team=team).exclude(gone).select_related("note")


def file_get(*, team: Team, public_id: str, where: str = "") -> SourceFile:
    found = file_list(team=team).filter(public_id=public_id[:64].replace("\x00", "")).first()
    if found is None:
        raise NotFound(f"No such File object: {public_id[:80]}", where=where or "id")
    return found


def file_delete(*, actor: Actor, row: SourceFile) -> None:
    """Take a file from the door. Its bytes go too, unless a dataset version was read from them and shows where it came from."""
    check_can(actor, Permission.DATASET_EDIT, team=row.team)
    audit(actor, "source_file.deleted", row, filename=row.filename)
    _discard(row)


def _discard(row: SourceFile) -> None:
    content = row.content
    try:
        with transaction.atomic():
            row.delete()
    except (ProtectedError, IntegrityError):
        now = timezone.now()
        FileNote.objects.update_or_create(
            source_file=row, defaults={"deleted_at": now}, create_defaults={"deleted_at": now, "status": "processed"}
        )
        return
    content.storage.delete(content.name)


def files_warn() -> int:
    """Tell owners, once for each day, which files expire within three days. What was to live no longer than that is the
    program's own business: it said so when it uploaded."""
    now = timezone.now()
    last_day = (now + WARNING).date()  # whole days, because a day is told once
    soon = FileNote.objects.filter(expires_at__gt=now, expires_at__date__lte=last_day, deleted_at=None)
    soon = soon.filter(expires_at__gt=F("source_file__created_at") + WARNING)
    days: dict[tuple[Team, date], list[str]] = defaultdict(list)
    for note in soon.select_related("source_file__team").order_by("pk")[:500]:
        days[note.source_file.team, note.expires_at.date()].append(note.source_file.filename)
    told = 0
    for (team, day), names in days.items():
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        told += notice_once(
            key=f"file-expiry/{team.public_id}/{day}",
            team=team,
            title=f"{len(names)} uploaded file{'s' if len(names) > 1 else ''} will expire on {day:%d %B %Y}",
            text=f"{shown}. They were uploaded through the REST door with that date. To keep one, download it and upload it "
            "again; dataset versions that were read from them stay.",
        )
    return told


def files_sweep() -> int:
    """Discard what has expired, tell what will, and look again at what nobody looked at for a while."""
    now = timezone.now()
    files_warn()
    gone = FileNote.objects.filter(expires_at__lte=now, deleted_at=None).select_related("source_file")
    for note in gone[:100]:
        _discard(note.source_file)
    late = FileNote.objects.filter(status=Status.UPLOADED, source_file__updated_at__lt=now - timedelta(minutes=2))
    for pk in late.values_list("source_file_id", flat=True)[:5]:
        file_check(source_file_id=pk)
    return len(late)
