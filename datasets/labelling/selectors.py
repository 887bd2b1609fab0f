"""Reads of label tasks. Blind mode is decided here: what a person may not see is never selected."""

import statistics
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from datasets.models import Label, LabelEntry, LabelTask
from rftstudio.core.errors import NotFound
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team, User
from rftstudio.teams.permissions import Permission, can


def annotator_name(actor: Actor) -> str:
    """What a person's labels are kept under; unlike a display name it is unique."""
    return actor.user.email if actor.user else actor.name


def task_list(*, team: Team) -> QuerySet[LabelTask]:
    """The team's label tasks, newest first, with counts of entries by state."""
    return (
        LabelTask.objects.filter(team=team)
        .select_related("version__dataset")
        .annotate(
            total=Count("entries"),
            waiting=Count("entries", filter=Q(entries__status=LabelEntry.Status.OPEN)),
            disputed=Count("entries", filter=Q(entries__status=LabelEntry.Status.DISPUTED)),
        )
        .order_by("-pk")
    )


def task_get(*, team: Team, public_id: str) -> LabelTask:
    task = LabelTask.objects.select_related("version__dataset", "team").filter(team=team, public_id=public_id).first()
    if task is None:
        raise NotFound("There is nothing at this address.")
    return task


def entry_get(*, task: LabelTask, position: int) -> LabelEntry:
    entry = task.entries.select_related("item", "task").filter(position=position).first()
    if entry is None:
        raise NotFound("There is nothing at this address.")
    return entry


def is_annotator(actor: Actor, task: LabelTask) -> bool:
    """Named for the task; or, when nobody is, any member who may label."""
    if actor.user is None or not can(actor, Permission.LABEL):
        return False
    named = list(task.annotators.values_list("pk", flat=True))
    return not named or actor.user.pk in named


def is_adjudicator(actor: Actor, task: LabelTask) -> bool:
    """Named for the task; or, when nobody is, whoever may edit datasets."""
    named = list(task.adjudicators.values_list("pk", flat=True))
    if named:
        return actor.user is not None and actor.user.pk in named and can(actor, Permission.LABEL)
    return can(actor, Permission.DATASET_EDIT)


def open_for(actor: Actor, task: LabelTask) -> QuerySet[LabelEntry]:
    """Entries that this person may label now, in order: not answered by them, with a place left."""
    name, now = annotator_name(actor), timezone.now()
    labels = Label.objects.filter(entry=OuterRef("pk"), is_adjudication=False).order_by()
    holds = Q(status=Label.Status.SUBMITTED) | Q(status=Label.Status.DRAFT, lease_until__gt=now)
    # Counted entry by entry, not by a join over all: the first one that fits ends the search.
    taken = labels.exclude(annotator=name).filter(holds).values("entry").annotate(count=Count("pk")).values("count")
    return (
        task.entries.filter(status=LabelEntry.Status.OPEN)
        .exclude(Exists(labels.filter(annotator=name).exclude(status=Label.Status.DRAFT)))
        .annotate(taken=Coalesce(Subquery(taken), 0))
        .filter(taken__lt=task.overlap)
        .order_by("position")
    )


def entry_ahead(*, actor: Actor, task: LabelTask, after: int) -> tuple[LabelEntry, Label] | None:
    """The entry that will most likely be the person's next one after `after`, with their draft of it, for the page to
    prepare. Nothing is held by looking at it."""
    if not is_annotator(actor, task) or task.status != LabelTask.Status.OPEN:
        return None
    entry = open_for(actor, task).filter(position__gt=after).select_related("item", "task").first()
    if entry is None:
        return None
    draft = entry.labels.filter(annotator=annotator_name(actor), is_adjudication=False).first()
    return entry, draft or Label(entry=entry)


def labels_visible(*, actor: Actor, task: LabelTask) -> QuerySet[Label]:
    """The labels this person may see: all where the entry takes no more labels; in a blind task else only their own,
    and others' once their own is in. Drafts of others are never shown."""
    name = annotator_name(actor)
    rows = Label.objects.filter(entry__task=task).filter(Q(annotator=name) | ~Q(status=Label.Status.DRAFT))
    if not task.is_blind or not is_annotator(actor, task):
        return rows
    own_is_in = Label.objects.filter(
        entry=OuterRef("entry"), annotator=name, status=Label.Status.SUBMITTED, is_adjudication=False
    )
    return rows.filter(Q(annotator=name) | ~Q(entry__status=LabelEntry.Status.OPEN) | Exists(own_is_in))


def flagged_list(*, actor: Actor, task: LabelTask) -> QuerySet[LabelEntry]:
    """Entries that somebody flagged for a second look, as far as this person may see their labels."""
    labels = labels_visible(actor=actor, task=task).filter(is_flagged=True, status=Label.Status.SUBMITTED)
    flagged = task.entries.filter(pk__in=labels.values("entry")).exclude(status=LabelEntry.Status.SETTLED)
    return flagged.select_related("item").order_by("position")


@dataclass(frozen=True)
class Progress:
    """Where a task stands, for everybody and for one person."""

    total: int
    done: int
    disputed: int
    skipped: int
    left_for_me: int
    mine_today: int
    seconds_left: float | None


def task_progress(*, actor: Actor, task: LabelTask) -> Progress:
    """Counts, and about how long the person's own rest will take at the pace of their last labels."""
    states = dict(task.entries.order_by().values_list("status").annotate(count=Count("pk")))
    total, name = sum(states.values()), annotator_name(actor)
    mine = Label.objects.filter(entry__task=task, annotator=name, status=Label.Status.SUBMITTED)
    pace = list(mine.filter(seconds__gt=0).order_by("-submitted_at").values_list("seconds", flat=True)[:20])
    left = open_for(actor, task).count() if is_annotator(actor, task) else 0
    return Progress(
        total=total,
        done=total - states.get(LabelEntry.Status.OPEN, 0),
        disputed=states.get(LabelEntry.Status.DISPUTED, 0),
        skipped=states.get(LabelEntry.Status.SKIPPED, 0),
        left_for_me=left,
        mine_today=mine.filter(submitted_at__gte=timezone.now() - timedelta(hours=24)).count(),
        seconds_left=statistics.median(pace) * left if pace and left else None,
    )


def last_submitted(*, actor: Actor, task: LabelTask) -> Label | None:
    """The label that undo would take back."""
    rows = Label.objects.filter(
        entry__task=task, annotator=annotator_name(actor), is_adjudication=False,
        status__in=[Label.Status.SUBMITTED, Label.Status.SKIPPED],
    )  # fmt: skip
    return rows.select_related("entry").order_by(F("submitted_at").desc(nulls_last=True), "-pk").first()


class MarkedStep(NamedTuple):
    """One person's mark on one step of a rollout: 1 helps, 0 neither, -1 harms."""

    subject: str
    step: int
    user: User
    mark: int


def step_labels(*, team_id: int, subjects: list[str]) -> list[MarkedStep]:
    """Marks on steps of these rollouts that members handed in, from every label task that asks for them."""
    rows = Label.objects.filter(
        entry__task__team=team_id, entry__subject__in=subjects, status=Label.Status.SUBMITTED, user__isnull=False
    ).select_related("entry__task", "user")
    return [
        MarkedStep(label.entry.subject, int(step), label.user, mark)
        for label in rows.order_by("pk")
        for field in label.entry.task.fields
        if field["kind"] == "steps"
        for step, mark in label.values.get(field["name"], {}).items()
    ]


def subject_labels(*, team: Team, subjects: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Results that hold for rollouts, `{rollout id: [values]}`: for calibration of graders and judges."""
    rows = LabelEntry.objects.filter(task__team=team, subject__in=subjects).exclude(result={})
    found: dict[str, list[dict[str, Any]]] = {}
    for subject, result in rows.values_list("subject", "result"):
        found.setdefault(subject, []).append(result)
    return found
