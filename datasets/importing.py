"""Reads a source file into its version, batch by batch. Each batch and how far it came are one transaction, so a
killed import goes on where it stopped, and of two that run at once the slower one leaves."""

import hashlib
import json
import re
import time
from array import array
from collections.abc import Callable
from typing import Any, BinaryIO

from django.db import transaction
from django.utils import timezone

from datasets import hashing, readers
from datasets.bulk import items_insert
from datasets.formats.base import BadLine, Blank, Cursor, FileFacts, FileRefused, Row
from datasets.formats.encodings import ENCODINGS
from datasets.formats.eval_items import unwrap
from datasets.formats.strict_json import canonical_bytes, dumps, showable
from datasets.models import DatasetVersion, FileImport, Item, LineProblem, Split
from datasets.row_checks import FAULTS, RowNotes, question_of, row_fault
from datasets.row_mapping import apply_mapping
from datasets.row_stats import Stats
from datasets.words import with_key, words_of
from rftstudio.core.errors import UserError

BATCH_ROWS = 4000
BATCH_BYTES = 8 * 1024 * 1024
KEY_LENGTH = 200
_UNSHOWABLE = re.compile("[\x00\ud800-\udfff]")
_SPLIT_WORDS = {name: name for name in Split.values} | dict.fromkeys(("val", "valid", "dev", "eval"), "validation")
Progress = Callable[[dict[str, Any]], None]
Questions = tuple[array, array]
SIDES = {side: place for place, side in enumerate(Split.values)}


class Overtaken(Exception):
    """Another process stored this batch first."""


def run(file_import: FileImport, on_progress: Progress | None = None) -> Questions | None:
    """Read from where the import stands to the end of the file. FileRefused is for the caller.

    Answers the hash of each question with its split when this run read the whole version, so that nobody has to scan it.
    """
    is_whole = file_import.records == 0 and file_import.first_position == 0
    with file_import.source_file.content.open("rb") as stream:
        facts = FileFacts(**file_import.facts)
        cursor = Cursor(offset=file_import.offset, line=file_import.line, records=file_import.records)
        writer = _Writer(file_import, stream, facts, on_progress)
        for event in readers.read(stream, facts, cursor):
            writer.take(event)
        writer.store()
    if file_import.item_count == 0 and file_import.records == writer.stats.blank:
        raise FileRefused("empty_file", "The file holds no rows.", "Choose a file with at least one row.")
    return writer.questions if is_whole else None


class _Writer:
    """Turns events into rows of the database, a batch at a time.

    Each row is boiled down at once to a tuple of plain values: holding a batch of parsed rows costs memory, and the
    garbage collector a tenth of the time.
    """

    def __init__(
        self, file_import: FileImport, stream: BinaryIO, facts: FileFacts, on_progress: Progress | None
    ) -> None:
        self.file_import = file_import
        self.stream, self.facts = stream, facts
        self.on_progress = on_progress
        self.stats = Stats(file_import.stats)
        self.notes = RowNotes()
        self.mapping, self.into = file_import.mapping, file_import.split
        self.started = time.monotonic()
        self.rows_before = file_import.item_count
        self.has_keys = "id" in self.stats.fields or file_import.first_position > 0
        self.questions: Questions = (array("q"), array("b"))
        self.rows: list[tuple] = []
        self.problems: list[LineProblem] = []
        self.events, self.bytes = 0, 0
        self.last = BadLine(file_import.line, 1, "", "", "", file_import.offset)

    def take(self, event: Row | BadLine | Blank) -> None:
        self.events += 1
        self.last = event
        if type(event) is Row:
            self._take_row(event)
        elif type(event) is BadLine:
            self.problems.append(self._problem(event))
        else:
            self.stats.blank += 1
        if self.events >= BATCH_ROWS or self.bytes >= BATCH_BYTES:
            self.store()

    def _take_row(self, row: Row) -> None:
        if self.mapping:
            made = apply_mapping(row.value, self.mapping)
            if made is None:
                self.problems.append(self._fault_of(row, "prompt_missing"))
                return
            row.value, row.raw, row.canonical = made, dumps(made), canonical_bytes(made)
        value, line, stats = row.value, row.line, self.stats
        question = question_of(value)
        stats.add(value, question, line)
        problem = row_fault(value)
        if problem:
            stats.fault(problem, line)
        for code in row.notes:
            stats.note(code, line)
        for code in self.notes(value):
            stats.note(code, line)
        key = own_key(value["id"]) if "id" in value else ""
        split = self.into or row.split or value.get("split")
        split = self._split(split, line) if split is not None else Split.TRAIN.value
        digest = hashlib.sha256(row.canonical).hexdigest()
        self.rows.append(
            (
                line,
                key,
                title_of(question),
                split,
                row.raw,
                digest,
                hashing.question_hash(value),
                problem,
                words_of(value),
            )
        )
        self.bytes += len(row.raw)

    def store(self) -> None:
        """One transaction: items, problems, and the mark how far we came."""
        if not self.events:
            return
        done, last = self.file_import, self.last
        with transaction.atomic():
            records = done.records + self.events
            mine = FileImport.objects.filter(pk=done.pk, status=FileImport.Status.RUNNING, records=done.records)
            if not mine.update(records=records, offset=last.end, line=last.line, updated_at=timezone.now()):
                raise Overtaken
            items, words = self._items()
            items_insert(items, words)
            LineProblem.objects.bulk_create(self.problems, batch_size=500)
            count = done.item_count + len(items)
            content_hash = hashing.chain(done.content_hash, (item[7] for item in items))
            FileImport.objects.filter(pk=done.pk).update(
                item_count=count, content_hash=content_hash, stats=self.stats.as_json()
            )
            done.records, done.item_count, done.content_hash = records, count, content_hash
            progress = self._progress()
            DatasetVersion.objects.filter(pk=done.version_id).update(
                progress=progress, item_count=done.first_position + count
            )
        self.rows, self.problems, self.events, self.bytes = [], [], 0, 0
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

    def _items(self) -> tuple[list[tuple], list[str]]:
        """What `items_insert` wants; rows whose id is taken become problems instead."""
        self.has_keys = self.has_keys or any(row[1] for row in self.rows)
        taken = self._taken() if self.has_keys else {}
        version, position = self.file_import.version_id, self.file_import.first_position + self.file_import.item_count
        items, said, (hashes, sides) = [], [], self.questions
        for line, key, title, split, raw, digest, question, problem, words in self.rows:
            if key in taken:
                self._refuse_doubled(line, key, raw, split, taken[key])
                continue
            key = key or self._made_key(position, taken)
            if self.has_keys:
                taken[key] = line
            items.append((version, position, line, key, title, split, raw, digest, question, problem))
            said.append(with_key(key, words))
            hashes.append(question)
            sides.append(SIDES[split])
            position += 1
        return items, said

    def _taken(self) -> dict[str, int]:
        first = self.file_import.first_position + self.file_import.item_count
        wanted = [row[1] for row in self.rows if row[1]] + [made_key(first + step) for step in range(len(self.rows))]
        return taken_keys(self.file_import.version_id, wanted)

    def _made_key(self, position: int, taken: dict[str, int]) -> str:
        key, step = made_key(position), 1
        while key in taken:
            step += 1
            key = f"{made_key(position)}-{step}"
            taken.update(taken_keys(self.file_import.version_id, [key]))
        return key

    def _refuse_doubled(self, line: int, key: str, raw: str, split: str, first_line: int) -> None:
        value = unwrap(json.loads(raw))
        named = split if self.into or "split" in value else ""
        self.stats.take_back(value, question_of(value), row_fault(value), named)
        shown = key if len(key) < 60 else key[:57] + "..."
        name = self.mapping.get("id", "id")
        columns = self.facts.columns
        column = columns.index(name) + 1 if name in columns else max(raw.find('"id"'), 0) + 1
        where = f"stands on line {first_line} already" if first_line else "is another item's already"
        self.problems.append(
            self._problem(
                BadLine(line, column, "duplicate_id", f"The id {shown!r} {where}.",
                        "Give the row an id of its own, or skip it.", 0).holding(raw)
            )
        )  # fmt: skip

    def _split(self, split: Any, line: int) -> str:
        name = _SPLIT_WORDS.get(split.strip().lower(), "") if type(split) is str else ""
        if name:
            self.stats.splits[name] += 1
        else:
            self.stats.note("split_unknown", line)
        return name or Split.TRAIN.value


def taken_keys(version_id: int, wanted: list[str]) -> dict[str, int]:
    """Those of the keys that the version has already, each with the line it came from."""
    found: dict[str, int] = {}
    for start in range(0, len(wanted), 900):
        keys = Item.objects.filter(version_id=version_id, key__in=wanted[start : start + 900])
        found.update(keys.values_list("key", "line"))
    return found


def own_key(value: Any) -> str:
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
    title = " ".join(question[:220].split())[:200]
    return title if title.isascii() and "\x00" not in title else showable(title)


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


def check_encoding(encoding: str) -> None:
    """Raise unless files can be read in it; the empty text means UTF-8."""
    if encoding and encoding not in ENCODINGS:
        raise UserError(
            f"{encoding!r} is no encoding that files are read in.",
            where="encoding",
            fix=f"Use {', '.join(ENCODINGS)}, or none for UTF-8.",
        )
