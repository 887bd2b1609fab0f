"""Repairs of a draft: a fix for all lines or items of one kind, a line typed anew, skipping, and taking any of it back."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import transaction
from django.utils import timezone

from datasets import changes, tasks
from datasets.formats.base import Row
from datasets.formats.eval_items import unwrap
from datasets.formats.jsonl import row_or_fault
from datasets.formats.strict_json import BadJson, dumps, parse
from datasets.models import ChangeSet, DatasetVersion, Item, LineProblem
from datasets.row_checks import REFERENCE_NAMES, question_of, text_of
from datasets.row_mapping import apply_mapping
from datasets.services import check_draft
from rftstudio.core.errors import Conflict, NotFound, UserError
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

RECOUNT_AT_ONCE = 20_000
Value = dict[str, Any]


def move_answer(value: Value) -> Value | None:
    """The last answer becomes the reference, unless the row has one; None when no question would be left."""
    messages, answer = list(value["messages"]), ""
    while messages and messages[-1]["role"] != "user":
        answer = text_of(messages.pop().get("content")) or answer
    if not messages:
        return None
    made = value | {"messages": messages}
    if answer and not any(name in value for name in REFERENCE_NAMES):
        made["reference_answer"] = answer
    return made


def cut_after_question(value: Value) -> Value | None:
    """The conversation up to its last user message."""
    messages = list(value["messages"])
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    return value | {"messages": messages} if messages else None


ITEM_FIXES: dict[str, tuple[str, Callable[[Value], Value | None]]] = {
    "last_message_assistant": ("Move {count} answers to the reference", move_answer),
    "last_message_not_user": ("Cut {count} conversations after the question", cut_after_question),
}


def nan_to_null(text: str) -> Value:
    return json.loads(text, parse_constant=lambda _: None)


LINE_FIXES: dict[str, tuple[str, Callable[[str], Value]]] = {
    "duplicate_id": ("Give {count} rows a new id", json.loads),
    "nan_literal": ("Write null in {count} rows", nan_to_null),
    "stray_mark": ("Take the mark off {count} rows", lambda text: json.loads(text.lstrip("\ufeff"))),
    "comma_at_end": ("Take the comma off {count} rows", lambda text: json.loads(text.rstrip().rstrip(","))),
}


def fix_title(code: str, count: int) -> str:
    """The words of the button, or the empty text when there is no fix for the whole kind."""
    title, _ = ITEM_FIXES.get(code) or LINE_FIXES.get(code) or ("", None)
    return title.format(count=count) if count != 1 else title.format(count=1).replace("1 answers", "the answer")


def _check(actor: Actor, version: DatasetVersion) -> None:
    check_can(actor, Permission.DATASET_EDIT, team=version.team)
    DatasetVersion.objects.select_for_update().get(pk=version.pk)
    check_draft(version)


def _finish(actor: Actor, change: ChangeSet, count: int) -> ChangeSet:
    change.count = count
    change.save(update_fields=["count"])
    _recount(change.version)
    audit(actor, "dataset_version.changed", change.version, change=change.verb, count=count)
    return change


def _recount(version: DatasetVersion) -> None:
    version.refresh_from_db()
    if version.item_count <= RECOUNT_AT_ONCE:
        changes.recount(version)
    else:
        queue(tasks.version_recount, version.pk, is_swept=False)


@transaction.atomic
def kind_fix(*, actor: Actor, version: DatasetVersion, code: str) -> ChangeSet:
    """Apply the fix of a kind of fault to every line or item that has it."""
    _check(actor, version)
    if code in ITEM_FIXES:
        title, fix = ITEM_FIXES[code]
        items = Item.objects.filter(version=version, problem=code).order_by("position")
        return _rewrite(actor, version, f"fix.{code}", title, ((item, fix(item.data)) for item in items.iterator()))
    if code in LINE_FIXES:
        return _fix_lines(actor, version, code)
    raise UserError("There is no fix for all lines of this kind.", fix="Edit the lines one by one, or skip them.")


def _rewrite(
    actor: Actor, version: DatasetVersion, verb: str, title: str, pairs: Iterable[tuple[Item, Value | None]]
) -> ChangeSet:
    change = changes.change_start(actor, version, verb, title)
    count = changes.items_rewrite(change, ((item, value) for item, value in pairs if value is not None))
    change.title = title.format(count=f"{count:,}")
    change.save(update_fields=["title"])
    return _finish(actor, change, count)


def _fix_lines(actor: Actor, version: DatasetVersion, code: str) -> ChangeSet:
    title, fix = LINE_FIXES[code]
    problems = version.problems.filter(code=code, state=LineProblem.State.OPEN, is_cut=False).order_by("line")
    rows, fixed = [], []
    for problem in problems.iterator():
        try:
            value, *_ = parse(dumps(fix(problem.text)).encode())
        except (ValueError, BadJson, RecursionError):  # another fault in the same line: it stays open
            continue
        if type(value) is not dict:
            continue
        rows.append((unwrap(value), problem.line))
        fixed.append(problem.pk)
    change = changes.change_start(actor, version, f"fix.{code}", title.format(count=f"{len(rows):,}"))
    changes.items_append(change, rows)
    _mark(fixed, LineProblem.State.FIXED, change)
    return _finish(actor, change, len(rows))


def _mark(ids: list[int], state: str, change: ChangeSet) -> None:
    for start in range(0, len(ids), 900):
        LineProblem.objects.filter(pk__in=ids[start : start + 900]).update(state=state, change=change)


@transaction.atomic
def line_edit(*, actor: Actor, version: DatasetVersion, problem_id: int, text: str) -> ChangeSet:
    """Take a refused line in as it was typed anew."""
    _check(actor, version)
    problem = version.problems.filter(pk=problem_id).first()
    if problem is None:
        raise NotFound("There is nothing at this address.")
    if problem.state != LineProblem.State.OPEN:
        raise Conflict(f"Line {problem.line} is {problem.state} already.", fix="Undo that first.")
    found = row_or_fault(text.strip().replace("\n", " ").encode("utf-8", "backslashreplace"), problem.line, 0, 0)
    if not isinstance(found, Row):
        raise UserError(f"Column {found.column}: {found.message}", where="text", fix=found.fix)
    change = changes.change_start(actor, version, "line.edit", f"Edit line {problem.line}")
    changes.items_append(change, [(found.value, problem.line)])
    _mark([problem.pk], LineProblem.State.FIXED, change)
    return _finish(actor, change, 1)


@transaction.atomic
def lines_skip(*, actor: Actor, version: DatasetVersion, code: str = "") -> ChangeSet:
    """Leave lines out for good: those of a kind, or all that are open. They stay listed as skipped."""
    _check(actor, version)
    problems = version.problems.filter(state=LineProblem.State.OPEN)
    problems = problems.filter(code=code) if code else problems
    count = problems.count()
    change = changes.change_start(actor, version, "lines.skip", f"Skip {count:,} lines")
    problems.update(state=LineProblem.State.SKIPPED, change=change)
    return _finish(actor, change, count)


@transaction.atomic
def items_drop(*, actor: Actor, version: DatasetVersion, code: str = "", keys: Iterable[str] = ()) -> ChangeSet:
    """Take items out of the draft: those with a fault, later copies of a conversation (`duplicate_question`), or named ones."""
    _check(actor, version)
    items = Item.objects.filter(version=version)
    if code == "duplicate_question":
        chosen = list(_later_copies(version))
    elif code:
        chosen = list(items.filter(problem=code))
    else:
        chosen = list(items.filter(key__in=list(keys)))
    change = changes.change_start(actor, version, "items.drop", f"Leave out {len(chosen):,} items")
    return _finish(actor, change, changes.items_remove(change, chosen))


def _later_copies(version: DatasetVersion) -> Iterator[Item]:
    seen: set[int] = set()
    rows = Item.objects.filter(version=version).exclude(question_hash=0).order_by("position")
    later = []
    for pk, question in rows.values_list("pk", "question_hash").iterator(chunk_size=5000):
        if question in seen:
            later.append(pk)
        seen.add(question)
    for start in range(0, len(later), 900):
        yield from Item.objects.filter(pk__in=later[start : start + 900])


@transaction.atomic
def items_map(*, actor: Actor, version: DatasetVersion, mapping: dict[str, str]) -> ChangeSet:
    """Make messages of columns, for items that have none."""
    _check(actor, version)
    items = Item.objects.filter(version=version, problem="messages_missing").order_by("position")
    pairs = ((item, apply_mapping(item.data, mapping)) for item in items.iterator())
    return _rewrite(actor, version, "items.map", "Make a conversation of {count} rows", pairs)


@transaction.atomic
def item_edit(*, actor: Actor, item: Item, value: Value, title: str = "") -> ChangeSet:
    """Give one item another row. Its key stays."""
    version = item.version
    _check(actor, version)
    return _rewrite(actor, version, "item.edit", title or f"Edit item {item.key}", [(item, value)])


@transaction.atomic
def items_set(*, actor: Actor, version: DatasetVersion, field: str, values: dict[str, Any], title: str) -> ChangeSet:
    """Write one field on many items, `{key: value}`: how labels become item fields."""
    _check(actor, version)
    if field in ("messages", "tools", "id", "split") or not field.strip():
        raise UserError(f"Labels cannot be written to {field!r}.", where="field", fix="Choose another field name.")
    change = changes.change_start(actor, version, "items.set", title)
    count, keys = 0, list(values)
    for start in range(0, len(keys), 900):
        items = Item.objects.filter(version=version, key__in=keys[start : start + 900])
        pairs = [(item, item.data | {field: values[item.key]}) for item in items]
        count += changes.items_rewrite(change, ((item, value) for item, value in pairs if value != item.data))
    return _finish(actor, change, count)


@transaction.atomic
def items_add(*, actor: Actor, version: DatasetVersion, rows: Iterable[Value], title: str = "") -> ChangeSet:
    """Add rows made elsewhere, rollouts or traces for instance, to a draft."""
    _check(actor, version)
    rows = list(rows)
    for number, value in enumerate(rows, 1):
        if not isinstance(value, dict):
            raise UserError(f"Row {number} is no object.", where="rows", fix="Give each row its messages.")
    change = changes.change_start(actor, version, "items.add", title or f"Add {len(rows):,} items")
    changes.items_append(change, [(value, 0) for value in rows])
    return _finish(actor, change, len(rows))


@transaction.atomic
def change_undo(*, actor: Actor, version: DatasetVersion, change_id: int) -> ChangeSet:
    """Take the change back. Only the newest one that stands can be, so that nothing is undone under another."""
    _check(actor, version)
    newest = version.changes.filter(undone_at=None).first()
    if newest is None or newest.pk != change_id:
        raise Conflict("Another change was made since.", fix="Undo the newer change first.")
    changes.items_restore(newest)
    newest.problems.update(state=LineProblem.State.OPEN, change=None)
    newest.undone_at = timezone.now()
    newest.save(update_fields=["undone_at"])
    _recount(version)
    audit(actor, "dataset_version.change_undone", version, change=newest.verb)
    return newest


def trace_row(messages: list[dict[str, Any]], **fields: Any) -> Value:
    """The task that a conversation began with: everything before the first answer, with free fields beside it."""
    opening = []
    for message in messages:
        if message.get("role") not in ("system", "developer", "user"):
            break
        opening.append({"role": message["role"], "content": message.get("content") or ""})
    value = {"messages": opening, **fields}
    if not opening or not question_of(value):
        raise UserError("The conversation does not begin with a question.", fix="Choose another rollout.")
    return value
