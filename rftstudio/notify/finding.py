"""Looks at what happened below and notes it as events, once each. Nobody below calls here; a lost look is made up by the next."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from jobs.evaluations.models import Evaluation
from jobs.models import Checkpoint, Job
from rftstudio.notify.models import Event, EventType, Webhook
from rftstudio.orders.models import JobOrder
from rftstudio.usage.models import Approval

#: How far back a look goes: a machine that was off for a week-end misses nothing.
BACK = timedelta(days=3)
_JOBS = {
    Job.Status.SUCCEEDED: EventType.JOB_SUCCEEDED,
    Job.Status.FAILED: EventType.JOB_FAILED,
    Job.Status.CANCELLED: EventType.JOB_CANCELLED,
}
#: Jobs asked for through the REST door that ended before there was one.
_ORDERS = {JobOrder.Stage.FAILED: EventType.JOB_FAILED, JobOrder.Stage.CANCELLED: EventType.JOB_CANCELLED}
_EVALUATIONS = {
    Evaluation.Status.SUCCEEDED: EventType.EVALUATION_SUCCEEDED,
    Evaluation.Status.FAILED: EventType.EVALUATION_FAILED,
    Evaluation.Status.CANCELLED: EventType.EVALUATION_CANCELLED,
}


def listeners() -> list[int] | None:
    """Teams of which somebody wants to hear; None is every team, where mail is set up."""
    if settings.EMAIL_HOST:
        return None
    return list(Webhook.objects.filter(is_active=True).values_list("team", flat=True).distinct())


def events_find() -> list[Event]:
    """Note what is new since the last look; returns the new events."""
    teams = listeners()
    if teams == []:
        return []
    since = timezone.now() - BACK
    found = {event.key: event for event in _all(since) if teams is None or event.team_id in teams}
    known = set(Event.objects.filter(key__in=found).values_list("key", flat=True))
    fresh = [event for key, event in found.items() if key not in known]
    Event.objects.bulk_create(fresh, ignore_conflicts=True)
    return list(Event.objects.filter(key__in=[event.key for event in fresh]).order_by("id"))


def _all(since: datetime) -> Iterator[Event]:
    ended = Job.objects.filter(status__in=_JOBS, finished_at__gte=since)
    for team, number, status, public_id, at in ended.values_list(
        "team", "number", "status", "public_id", "finished_at"
    ):
        yield _event(team, _JOBS[status], public_id, at, f"Job {number} {status}", "")
    never = JobOrder.objects.filter(stage__in=_ORDERS, finished_at__gte=since)
    for team, stage, public_id, at in never.values_list("team", "stage", "public_id", "finished_at"):
        yield _event(team, _ORDERS[stage], public_id, at, f"{public_id} {stage} before it could start", "")
    for job in Job.objects.filter(status=Job.Status.PAUSED, created_at__gte=timezone.now() - timedelta(days=90)):
        # Each resumption goes through the queue, so the moment it was queued tells one pause from the next.
        mark = job.queued_at.isoformat() if job.queued_at else ""
        at = job.heartbeat_at or job.updated_at
        yield _event(job.team_id, EventType.JOB_PAUSED, job.public_id, at, f"Job {job.number} paused", mark)
    saved = Checkpoint.objects.filter(created_at__gte=since, is_deleted=False)
    for team, public_id, at, number, step in saved.values_list(
        "team", "public_id", "created_at", "job__number", "step_number"
    ):
        yield _event(
            team, EventType.CHECKPOINT_SAVED, public_id, at, f"Job {number}: checkpoint at train step {step}", ""
        )
    done = Evaluation.objects.filter(status__in=_EVALUATIONS, finished_at__gte=since)
    for team, number, status, public_id, at in done.values_list("team", "number", "status", "public_id", "finished_at"):
        yield _event(team, _EVALUATIONS[status], public_id, at, f"Evaluation {number} {status}", "")
    for asked in Approval.objects.filter(status=Approval.Status.WAITING, created_at__gte=since):
        words = f"{asked.label} asks for ${asked.amount_usd:.2f}"
        yield _event(asked.team_id, EventType.APPROVAL_ASKED, asked.public_id, asked.created_at, words, "")


def _event(team_id: int, kind: str, object_id: str, at: datetime, title: str, mark: str) -> Event:
    key = ":".join(filter(None, [kind, object_id, mark]))
    return Event(team_id=team_id, type=kind, key=key[:120], object_id=object_id, title=title[:200], happened_at=at)
