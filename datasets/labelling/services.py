"""Writes of label tasks: making one, claiming an entry, answering, settling, and putting labels on items."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from datasets import repairs
from datasets.labelling import schema
from datasets.labelling.agreement import agreement
from datasets.labelling.selectors import annotator_name, is_adjudicator, is_annotator, last_submitted, open_for
from datasets.models import DatasetVersion, Item, Label, LabelEntry, LabelEvent, LabelTask
from datasets.services import dataset_version_copy
from rftstudio.core.errors import Conflict, NotAllowed, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import User
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

LEASE = timedelta(minutes=10)
LONGEST_SECONDS = 30 * 60
_MAY_BE_SETTLED = (LabelEntry.Status.DISPUTED, LabelEntry.Status.SETTLED, LabelEntry.Status.SKIPPED)
RULES = ("majority", "adjudicated", "single")


class Taken(Conflict):
    """Others have filled the places of this entry meanwhile."""


@transaction.atomic
def task_create(
    *,
    actor: Actor,
    name: str,
    fields: list[dict[str, Any]],
    version: DatasetVersion | None = None,
    split: str = "",
    overlap: int = 1,
    is_blind: bool = True,
    shows_reference: bool = False,
    instructions: str = "",
    annotators: Iterable[User] = (),
    adjudicators: Iterable[User] = (),
) -> LabelTask:
    """Make a task with an entry for each item of the version (or of one split); without a version the queue is empty."""
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    if version is not None:
        check_can(actor, Permission.DATASET_EDIT, team=version.team)
    faults = schema.schema_faults(fields)
    if faults:
        raise UserError(f"{faults[0].message}", where=faults[0].where, fix=faults[0].fix)
    if not 1 <= overlap <= 20:
        raise UserError(
            "Between 1 and 20 people label each entry.", where="overlap", fix="Choose 2 to measure agreement."
        )
    people = [*annotators]
    if people and len(people) < overlap:
        raise UserError(
            f"{overlap} labels are wanted of each entry, but {len(people)} people are named.", where="annotators",
            fix="Name more people, or nobody to let every member label.",
        )  # fmt: skip
    task = LabelTask.objects.create(
        team=actor.team, created_by=actor.user, name=name.strip()[:120] or "Labels", version=version, fields=fields,
        overlap=overlap, is_blind=is_blind, shows_reference=shows_reference, instructions=instructions,
    )  # fmt: skip
    task.annotators.set(_members(actor, people, "annotators"))
    task.adjudicators.set(_members(actor, adjudicators, "adjudicators"))
    if version is not None:
        items = Item.objects.filter(version=version).order_by("position")
        items = items.filter(split=split) if split else items
        rows = items.values_list("pk", "key").iterator(chunk_size=2000)
        LabelEntry.objects.bulk_create(
            (LabelEntry(task=task, item_id=pk, subject=key, position=place) for place, (pk, key) in enumerate(rows)),
            batch_size=1000,
        )
    audit(actor, "label_task.created", task, overlap=overlap, blind=is_blind)
    return task


def _members(actor: Actor, people: Iterable[User], where: str) -> list[User]:
    people = list(people)
    strangers = [user for user in people if not user.memberships.filter(team=actor.team).exists()]
    if strangers:
        raise UserError(f"{strangers[0]} is no member of the team.", where=where, fix="Invite the person first.")
    return people


@transaction.atomic
def task_add_subjects(*, actor: Actor, task: LabelTask, subjects: Iterable[dict[str, Any]]) -> int:
    """Queue rollouts: `{"subject": public id, "content": {"messages", "steps": [{"title", "text"}], "answer"}}`.
    What people must not see before they judge, the reward above all, does not belong into the content."""
    check_can(actor, Permission.LABEL, team=task.team)
    position = task.entries.count()
    known = set(task.entries.values_list("subject", flat=True))
    rows = [each for each in subjects if each["subject"] not in known]
    LabelEntry.objects.bulk_create(
        LabelEntry(task=task, subject=each["subject"], content=each["content"], position=position + place)
        for place, each in enumerate(rows)
    )
    audit(actor, "label_task.subjects_added", task, count=len(rows))
    return len(rows)


@transaction.atomic
def task_set_status(*, actor: Actor, task: LabelTask, status: str) -> LabelTask:
    check_can(actor, Permission.DATASET_EDIT, team=task.team)
    task.status = LabelTask.Status(status)
    task.save(update_fields=["status", "updated_at"])
    audit(actor, f"label_task.{status}", task)
    return task


def _check_annotator(actor: Actor, task: LabelTask) -> None:
    check_can(actor, Permission.LABEL, team=task.team)
    if not is_annotator(actor, task):
        raise NotAllowed("You are not among the people named for this task.", fix="Ask its maker to name you.")
    if task.status != LabelTask.Status.OPEN:
        raise Conflict(f"{task} is closed.", fix="Ask its maker to open it again.")


def entry_claim(*, actor: Actor, task: LabelTask) -> tuple[LabelEntry, Label] | None:
    """The person's next entry with their draft, held for ten minutes; None when nothing is left for them."""
    _check_annotator(actor, task)
    name = annotator_name(actor)
    for _ in range(5):
        with transaction.atomic():
            # By person first, and put in order here: by entry, the database would walk the whole queue for it.
            drafts = Label.objects.filter(user=actor.user, annotator=name, status=Label.Status.DRAFT)
            drafts = drafts.filter(is_adjudication=False, entry__task=task, entry__status=LabelEntry.Status.OPEN)
            draft = min(drafts.select_related("entry__item"), key=lambda each: each.entry.position, default=None)
            if draft and _has_place(draft.entry, name):
                return draft.entry, _hold(draft)
            if draft:
                draft.delete()
                continue
            entry = open_for(actor, task).first()
            if entry is None:
                return None
            entry = LabelEntry.objects.select_for_update(of=("self",)).select_related("item").get(pk=entry.pk)
            if not _has_place(entry, name):
                continue
            label, _ = Label.objects.get_or_create(
                entry=entry, annotator=name, is_adjudication=False, defaults={"user": actor.user}
            )
            return entry, _hold(label)
    return None


def _has_place(entry: LabelEntry, name: str) -> bool:
    """Whether fewer others than the overlap have answered or hold the entry now."""
    others = Label.objects.filter(entry=entry, is_adjudication=False).exclude(annotator=name)
    answered = others.filter(status=Label.Status.SUBMITTED).count()
    held = others.filter(status=Label.Status.DRAFT, lease_until__gt=timezone.now()).count()
    return answered + held < entry.task.overlap


def _hold(label: Label) -> Label:
    label.lease_until = timezone.now() + LEASE
    label.save(update_fields=["lease_until"])
    return label


def _own_draft(actor: Actor, entry: LabelEntry) -> Label:
    """The person's label of an entry that still takes it, locked; Taken when the lease ran out and others came first."""
    _check_annotator(actor, entry.task)
    entry = LabelEntry.objects.select_for_update(of=("self",)).get(pk=entry.pk)
    name = annotator_name(actor)
    label, _ = Label.objects.get_or_create(
        entry=entry, annotator=name, is_adjudication=False, defaults={"user": actor.user}
    )
    if label.status != Label.Status.DRAFT:
        raise Conflict("You have answered this already.", fix="Take the answer back first.")
    is_held = label.lease_until is not None and label.lease_until > timezone.now()
    if entry.status != LabelEntry.Status.OPEN or not (is_held or _has_place(entry, name)):
        raise Taken("Colleagues have labelled this meanwhile.", fix="Go on with the next one.")
    return label


@transaction.atomic
def label_save(*, actor: Actor, entry: LabelEntry, values: dict[str, Any], is_flagged: bool = False) -> Label:
    """Keep a draft and renew its hold."""
    label = _own_draft(actor, entry)
    label.values = _cleaned(entry.task, values, is_final=False)
    label.is_flagged = is_flagged
    label.lease_until = timezone.now() + LEASE
    label.save()
    return label


def _cleaned(task: LabelTask, values: dict[str, Any], *, is_final: bool) -> dict[str, Any]:
    try:
        return schema.clean_values(task.fields, values, is_final=is_final)
    except ValueError as exc:
        raise UserError(str(exc), where="values") from exc


@transaction.atomic
def label_submit(*, actor: Actor, entry: LabelEntry, values: dict[str, Any], is_flagged: bool = False) -> LabelEntry:
    """Hand an answer in; the last one that is wanted settles the entry or makes it disputed."""
    label = _own_draft(actor, entry)
    label.values = _cleaned(entry.task, values, is_final=True)
    label.is_flagged = is_flagged
    _answer(label, Label.Status.SUBMITTED)
    return _settle(entry.pk)


@transaction.atomic
def label_skip(*, actor: Actor, entry: LabelEntry, reason: str) -> LabelEntry:
    """Pass an entry on to others, saying why."""
    if not reason.strip():
        raise UserError("Say why it is skipped.", where="reason", fix="A few words help whoever looks at it.")
    label = _own_draft(actor, entry)
    label.values, label.reason = {}, reason.strip()[:500]
    _answer(label, Label.Status.SKIPPED)
    return _settle(entry.pk)


def _answer(label: Label, status: str) -> None:
    now = timezone.now()
    label.status, label.submitted_at, label.lease_until = status, now, None
    label.seconds = min((now - label.opened_at).total_seconds(), LONGEST_SECONDS)
    label.save()
    note(label.entry, label.annotator, str(status), label.values or {"reason": label.reason})


def note(entry: LabelEntry, who: str, verb: str, values: dict[str, Any]) -> None:
    LabelEvent.objects.create(entry=entry, who=who, verb=verb, values=values)


def entry_settle(*, entry: LabelEntry) -> LabelEntry:
    """Read the entry's state off its labels, after labels came in from elsewhere. For services of this room."""
    return _settle(entry.pk)


def _settle(entry_id: int) -> LabelEntry:
    """Read the state of an entry off its labels."""
    entry = LabelEntry.objects.select_related("task").get(pk=entry_id)
    labels = list(entry.labels.filter(is_adjudication=False))
    answers = [label.values for label in labels if label.status == Label.Status.SUBMITTED]
    entry.submitted, entry.result, entry.status = len(answers), {}, LabelEntry.Status.OPEN
    skipped = sum(label.status == Label.Status.SKIPPED for label in labels)
    if len(answers) >= entry.task.overlap or _nobody_left(entry.task, len(answers), skipped):
        if not answers:
            entry.status = LabelEntry.Status.SKIPPED
        elif schema.disagreements(entry.task.fields, answers):
            entry.status = LabelEntry.Status.DISPUTED
        else:
            entry.status, entry.result = LabelEntry.Status.AGREED, schema.majority(entry.task.fields, answers)
    entry.save()
    LabelTask.objects.filter(pk=entry.task_id).update(agreement={})
    return entry


def _nobody_left(task: LabelTask, answered: int, skipped: int) -> bool:
    people = task.annotators.count()
    if people:
        return people - answered - skipped <= 0
    return answered == 0 and skipped > task.overlap


@transaction.atomic
def label_undo(*, actor: Actor, task: LabelTask) -> LabelEntry | None:
    """Open the person's last answer again, with its values as a draft; None when there is none."""
    _check_annotator(actor, task)
    label = last_submitted(actor=actor, task=task)
    if label is None:
        return None
    entry = LabelEntry.objects.select_for_update(of=("self",)).get(pk=label.entry_id)
    if entry.status == LabelEntry.Status.SETTLED:
        raise Conflict("This entry is settled already.", fix="Tell the person who settled it.")
    label.status, label.submitted_at, label.lease_until = Label.Status.DRAFT, None, timezone.now() + LEASE
    label.save()
    note(entry, label.annotator, "reopened", {})
    return _settle(entry.pk)


@transaction.atomic
def entry_adjudicate(*, actor: Actor, entry: LabelEntry, values: dict[str, Any]) -> LabelEntry:
    """Decide a disputed entry. Labels stay as they were; the decision is a label of its own."""
    check_can(actor, Permission.LABEL, team=entry.task.team)
    if not is_adjudicator(actor, entry.task):
        raise NotAllowed("You are not among the people who settle this task.", fix="Ask its maker to name you.")
    entry = LabelEntry.objects.select_for_update(of=("self",)).select_related("task").get(pk=entry.pk)
    is_flagged = entry.status == LabelEntry.Status.AGREED and entry.labels.filter(is_flagged=True).exists()
    if entry.status not in _MAY_BE_SETTLED and not is_flagged:
        raise Conflict("There is nothing to settle here.", fix="Go back to the list of disputes.")
    cleaned, now = _cleaned(entry.task, values, is_final=True), timezone.now()
    Label.objects.update_or_create(
        entry=entry, annotator=annotator_name(actor), is_adjudication=True,
        defaults={"user": actor.user, "status": Label.Status.SUBMITTED, "values": cleaned, "submitted_at": now},
    )  # fmt: skip
    entry.status, entry.result, entry.settled_by = LabelEntry.Status.SETTLED, cleaned, annotator_name(actor)
    entry.save()
    note(entry, annotator_name(actor), "adjudicated", cleaned)
    audit(actor, "label_entry.adjudicated", entry.task, subject=entry.subject)
    return entry


@transaction.atomic
def labels_apply(
    *, actor: Actor, task: LabelTask, field: str, rule: str = "majority", item_field: str = "", annotator: str = ""
) -> tuple[DatasetVersion, int]:
    """Write a field's labels on the items. A frozen version stays as it is: a new one is made from it.

    `majority`: what most said, or the adjudicated value. `adjudicated`: only what was settled or agreed by all.
    `single`: the answers of one person.
    """
    check_can(actor, Permission.DATASET_EDIT, team=task.team)
    if field not in {each["name"] for each in task.fields} or rule not in RULES or task.version is None:
        raise UserError("Choose a field of the form and a rule.", where="field", fix=f"Rules: {', '.join(RULES)}.")
    kind = next(each["kind"] for each in task.fields if each["name"] == field)
    target = item_field.strip() or ("reference_answer" if kind == "reference" else field)
    values = dict(_values_by_rule(task, field, rule, annotator))
    version = task.version
    if version.status == DatasetVersion.Status.FROZEN:
        version = dataset_version_copy(actor=actor, version=version)
    change = repairs.items_set(
        actor=actor, version=version, field=target, values=values, title=f"Labels of {task.name} as {target} ({rule})"
    )
    audit(actor, "label_task.applied", task, field=target, rule=rule, version=version.public_id, count=change.count)
    version.refresh_from_db()
    return version, change.count


def _values_by_rule(task: LabelTask, field: str, rule: str, annotator: str):
    entries = task.entries.exclude(item=None).prefetch_related("labels")
    for entry in entries:
        if rule == "single":
            own = [label for label in entry.labels.all() if label.annotator == annotator and not label.is_adjudication]
            answers = [label.values for label in own if label.status == Label.Status.SUBMITTED]
            result = answers[0] if answers else {}
        elif entry.result or rule == "adjudicated":
            result = entry.result
        else:
            given = [each.values for each in entry.labels.all() if each.status == Label.Status.SUBMITTED]
            result = schema.majority(task.fields, given)
        if field in result:
            yield entry.subject, result[field]


def agreement_of(*, task: LabelTask) -> list[dict[str, Any]]:
    """Agreement per field, computed when a label came in since."""
    if "fields" not in task.agreement:
        labels = Label.objects.filter(entry__task=task, status=Label.Status.SUBMITTED, is_adjudication=False)
        triples = list(labels.order_by("entry_id", "pk").values_list("annotator", "entry_id", "values"))
        task.agreement = {"fields": agreement(task.fields, triples)}
        LabelTask.objects.filter(pk=task.pk).update(agreement=task.agreement)
    return task.agreement["fields"]
