"""Label tasks from and to Label Studio."""

from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from datasets import repairs
from datasets.labelling import label_studio, schema, services
from datasets.labelling.selectors import labels_visible
from datasets.models import Label, LabelEntry, LabelTask
from datasets.row_checks import question_of
from datasets.services import dataset_create, version_start
from rftstudio.core.errors import UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import User
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit


@transaction.atomic
def label_studio_import(*, actor: Actor, name: str, content: bytes) -> tuple[LabelTask, dict[str, int]]:
    """Make a dataset of the export's tasks and a label task of its annotations, history kept; it is not blind, because
    whoever brings the file has read it. Also answers how many
    answers of which kinds were left out, because no field can hold them."""
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    try:
        export = label_studio.read(content)
    except (label_studio.NotLabelStudio, ValueError) as exc:
        raise UserError(str(exc), where="file", fix="In Label Studio choose Export, JSON.") from exc
    tasks, fields = export.tasks, export.fields
    dataset = dataset_create(actor=actor, name=name)
    version = version_start(actor=actor, dataset=dataset)
    rows = [label_studio.row_of(task.data) for task in tasks]
    repairs.items_add(actor=actor, version=version, rows=rows, title="Import from Label Studio")
    overlap = max((sum(not (a.is_skipped or a.is_decision) for a in task.annotations) for task in tasks), default=1)
    task = services.task_create(
        actor=actor, name=name, version=version, overlap=max(1, overlap), is_blind=False,
        fields=fields or [{"name": "answer", "label": "Answer", "kind": "text"}],
    )  # fmt: skip
    members = {user.email: user for user in User.objects.filter(memberships__team=actor.team)}
    for entry, source in zip(task.entries.order_by("position"), tasks, strict=True):
        for annotation in source.annotations:
            try:
                _label_in(entry, annotation, task.fields, members)
            except ValueError as exc:
                raise UserError(f"Task {entry.subject}: {exc}", where="file", fix="Correct the annotation.") from exc
        settled = services.entry_settle(entry=entry)
        for annotation in source.annotations:
            if annotation.is_decision:
                settled.status, settled.result = LabelEntry.Status.SETTLED, annotation.values
                settled.settled_by = annotation.annotator[:200]
                settled.save()
    audit(actor, "label_task.imported", task, tasks=len(tasks), left_out=sum(export.left_out.values()))
    return task, dict(export.left_out)


def _label_in(
    entry: LabelEntry, annotation: label_studio.Annotation, fields: list[dict[str, Any]], members: dict[str, User]
) -> None:
    kinds = {field["name"]: field["kind"] for field in fields}
    values = {
        name: value[0] if kinds[name] == "choice" and isinstance(value, list) and value else value
        for name, value in annotation.values.items()
        if value not in (None, [], "")
    }
    Label.objects.update_or_create(
        entry=entry,
        annotator=annotation.annotator[:200],
        is_adjudication=annotation.is_decision,
        defaults={
            "user": members.get(annotation.annotator),
            "values": schema.clean_values(fields, values, is_final=False),
            "status": Label.Status.SKIPPED if annotation.is_skipped else Label.Status.SUBMITTED,
            "seconds": annotation.seconds,
            "reason": annotation.reason[:500],
            "submitted_at": parse_datetime(annotation.created_at) or timezone.now(),
        },
    )
    services.note(
        entry, annotation.annotator[:200], "imported", {"values": annotation.values, "history": annotation.history}
    )


def label_studio_export(*, actor: Actor, task: LabelTask) -> list[dict[str, Any]]:
    """The task with the labels that this person may see, as Label Studio imports it."""
    check_can(actor, Permission.LABEL, team=task.team)
    labels: dict[int, list[Label]] = {}
    rows = labels_visible(actor=actor, task=task).exclude(status=Label.Status.DRAFT)
    for label in rows.order_by("submitted_at", "pk"):
        labels.setdefault(label.entry_id, []).append(label)
    exported = []
    for number, entry in enumerate(task.entries.select_related("item").order_by("position"), 1):
        data = entry.item.data if entry.item else {"subject": entry.subject, **entry.content}
        annotations = [
            label_studio.Annotation(
                label.annotator, label.values, label.status == Label.Status.SKIPPED, label.is_adjudication,
                label.reason, label.seconds,
                label.submitted_at.isoformat() if label.submitted_at else "",
            )
            for label in labels.get(entry.pk, [])
        ]  # fmt: skip
        data = data | ({} if "text" in data else {"text": question_of(data)})
        exported.append(label_studio.task_out(number, data, annotations, task.fields))
    return exported
