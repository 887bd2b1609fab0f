"""Reads a source file into its version, batch by batch. Each batch and how far it came are one transaction, so a
killed import goes on where it stopped, and of two that run at once the slower one leaves."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from django.db import transaction
from django.utils import timezone

from datasets import hashing, readers
from datasets.bulk import items_insert
from datasets.formats.base import BadLine, Blank, Cursor, FileFacts, FileRefused, Row
from datasets.formats.strict_json import canonical_bytes, dumps, showable
from datasets.models import DatasetVersion, FileImport, Item, LineProblem, Split
from datasets.row_checks import FAULTS, RowNotes, question_of, row_fault
from datasets.row_mapping import apply_mapping
from datasets.row_stats import Stats

BATCH_ROWS = 2000
BATCH_BYTES = 4 * 1024 * 1024
KEY_LENGTH = 200
_UNSHOWABLE = re.compile("[\x00\ud800-\udfff]")
_SPLITS = set(Split.values)
Progress = Callable[[dict[str, Any]], None]


class Overtaken(Exception):
    """Another process stored this batch first."""


def run(file_import: FileImport, on_progress: Progress | None = None) -> None:
    """Read from where the import stands to the end of the file. FileRefused is for the caller."""
    with file_import.source_file.content.open("rb") as stream:
        facts = FileFacts(**file_import.facts)
        cursor = Cursor(offset=file_import.offset, line=file_import.line, records=file_import.records)
        writer = _Writer(file_import, stream, on_progress)
        batch, size = [], 0
        for event in readers.read(stream, facts, cursor):
            batch.append(event)
            size += len(event.raw) if type(event) is Row else 64
            if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
                writer.store(batch)
                batch, size = [], 0
        if batch:
            writer.store(batch)


class _Writer:
    """Turns a batch of events into rows of the database."""

    def __init__(self, file_import: FileImport, stream: BinaryIO, on_progress: Progress | None) -> None:
        self.file_import = file_import
        self.stream = stream
        self.on_progress = on_progress
        self.stats = Stats(file_import.stats)
        self.notes = RowNotes()
        self.mapping = file_import.mapping
        self.started = time.monotonic()
        self.rows_before = file_import.item_count
        self.has_keys = "id" in self.stats.fields or file_import.first_position > 0

    def store(self, batch: list[Row | BadLine | Blank]) -> None:
        """One transaction: items, problems, and the mark how far we came."""
        done = self.file_import
        with transaction.atomic():
            rows, problems = self._sort_out(batch)
            items, digests = self._items(rows, problems)
            items_insert(items)
            LineProblem.objects.bulk_create(problems, batch_size=500)
            records, last = done.records + len(batch), batch[-1]
            content_hash = hashing.chain(done.content_hash, digests)
            moved = FileImport.objects.filter(
                pk=done.pk, records=done.records, status=FileImport.Status.RUNNING
            ).update(
                records=records, offset=last.end, line=last.line, item_count=done.item_count + len(items),
                content_hash=content_hash, stats=self.stats.as_json(), updated_at=timezone.now(),
            )  # fmt: skip
            if not moved:
                raise Overtaken
            done.records, done.offset, done.line, done.content_hash = records, last.end, last.line, content_hash
            done.item_count += len(items)
            progress = self._progress()
            DatasetVersion.objects.filter(pk=done.version_id).update(
                progress=progress, item_count=done.first_position + done.item_count
            )
        if self.on_progress:
            self.on_progress(progress)

    def _progress(self) -> dict[str, Any]:
        seconds = max(time.monotonic() - self.started, 1e-3)
        total, read = self.file_import.source_file.bytes, self.stream.tell()
        rate = (self.file_import.item_count - self.rows_before) / seconds
        return {
            "rows": self.file_import.item_count,
            "bytes": min(read, total),
            "bytes_total": total,
            "problems": self.stats.faults.get("line", {}).get("count", 0),
            "rate": round(rate),
            "at": timezone.now().isoformat(),
            "started_at": self.file_import.started_at.isoformat(),
        }

    def _sort_out(self, batch: list[Row | BadLine | Blank]) -> tuple[list[Row], list[LineProblem]]:
        rows: list[Row] = []
        problems: list[LineProblem] = []
        for event in batch:
            if type(event) is Row:
                if self.mapping:
                    made = apply_mapping(event.value, self.mapping)
                    if made is None:
                        problems.append(self._fault_of(event, "prompt_missing"))
                        continue
                    event.value, event.raw, event.canonical = made, dumps(made), canonical_bytes(made)
                rows.append(event)
            elif type(event) is BadLine:
                problems.append(self._problem(event))
            else:
                self.stats.blank += 1
        return rows, problems

    def _fault_of(self, row: Row, code: str) -> LineProblem:
        fault = FAULTS[code]
        return self._problem(BadLine(row.line, 1, code, fault.message, fault.fix, row.end).holding(row.raw))

    def _problem(self, bad: BadLine) -> LineProblem:
        self.stats.fault("line", bad.line)
        return LineProblem(
            version_id=self.file_import.version_id, file_import_id=self.file_import.pk, line=bad.line,
            column=bad.column, code=bad.code, message=bad.message[:500], fix=bad.fix[:300], text=bad.text,
            is_cut=bad.is_cut,
        )  # fmt: skip

    def _items(self, rows: list[Row], problems: list[LineProblem]) -> tuple[list[tuple], list[str]]:
        """Tuples for `items_insert`; rows whose id is taken become problems instead."""
        own = [_own_key(row.value.get("id")) for row in rows]
        self.has_keys = self.has_keys or any(own)
        taken = self._taken(own, len(rows)) if self.has_keys else {}
        version, position = self.file_import.version_id, self.file_import.first_position + self.file_import.item_count
        items, digests, stats = [], [], self.stats
        for row, key in zip(rows, own, strict=True):
            if key and key in taken:
                problems.append(self._doubled(row, key, taken[key]))
                continue
            key = key or self._made_key(position, taken)
            taken[key] = row.line
            value = row.value
            question = question_of(value)
            stats.add(value, question, row.line)
            problem = row_fault(value)
            if problem:
                stats.fault(problem, row.line)
            for code in (*row.notes, *self.notes(value)):
                stats.note(code, row.line)
            digest = hashlib.sha256(row.canonical).hexdigest()
            digests.append(digest)
            items.append(
                (version, position, row.line, key, title_of(question), self._split(value), row.raw, digest,
                 hashing.question_hash(value), problem)
            )  # fmt: skip
            position += 1
        return items, digests

    def _taken(self, own: list[str], count: int) -> dict[str, int]:
        first = self.file_import.first_position + self.file_import.item_count
        wanted = [key for key in own if key] + [made_key(first + step) for step in range(count)]
        return taken_keys(self.file_import.version_id, wanted)

    def _made_key(self, position: int, taken: dict[str, int]) -> str:
        key, step = made_key(position), 1
        while key in taken:
            step += 1
            key = f"{made_key(position)}-{step}"
            taken.update(taken_keys(self.file_import.version_id, [key]))
        return key

    def _doubled(self, row: Row, key: str, first_line: int) -> LineProblem:
        shown = key if len(key) < 60 else key[:57] + "..."
        column = max(row.raw.find('"id"'), 0) + 1
        where = f"stands on line {first_line} already" if first_line else "is another item's already"
        return self._problem(
            BadLine(row.line, column, "duplicate_id", f"The id {shown!r} {where}.",
                    "Give the row an id of its own, or skip it.", row.end).holding(row.raw)
        )  # fmt: skip

    def _split(self, value: dict[str, Any]) -> str:
        split = value.get("split")
        if type(split) is str and split in _SPLITS:
            self.stats.splits[split] += 1
            return split
        return Split.TRAIN


def taken_keys(version_id: int, wanted: list[str]) -> dict[str, int]:
    """Those of the keys that the version has already, each with the line it came from."""
    found: dict[str, int] = {}
    for start in range(0, len(wanted), 900):
        keys = Item.objects.filter(version_id=version_id, key__in=wanted[start : start + 900])
        found.update(keys.values_list("key", "line"))
    return found


def _own_key(value: Any) -> str:
    if type(value) is int:
        return str(value) if -(10**60) < value < 10**60 else ""
    if type(value) is not str or not value.strip():
        return ""
    shown = _UNSHOWABLE.sub("\ufffd", value)
    if len(shown) <= KEY_LENGTH:
        return shown
    return f"{shown[: KEY_LENGTH - 17]}-{hashlib.sha256(shown.encode()).hexdigest()[:16]}"


def made_key(position: int) -> str:
    """The key of an item without an id: its place, from 1."""
    return f"{position + 1:04d}"


def title_of(question: str) -> str:
    """One line for lists, at most 200 characters."""
    title = " ".join(question[:600].split())[:200]
    return showable(title) if _UNSHOWABLE.search(title) else title


def refuse(file_import: FileImport, refused: FileRefused) -> None:
    """Keep the reason why the whole file was refused."""
    problem = LineProblem(
        version_id=file_import.version_id, file_import=file_import, line=refused.line, column=refused.column,
        code=refused.code, message=refused.message[:500], fix=refused.fix[:300],
    )  # fmt: skip
    with transaction.atomic():
        stopped = FileImport.objects.filter(pk=file_import.pk, status=FileImport.Status.RUNNING).update(
            status=FileImport.Status.FAILED, updated_at=timezone.now()
        )
        if stopped:
            problem.save()


def lines_of(file_import: FileImport) -> Iterator[LineProblem]:
    """The problems of this file, by line."""
    return LineProblem.objects.filter(file_import=file_import).order_by("line", "pk").iterator(chunk_size=2000)
