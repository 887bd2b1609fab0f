"""The one way by which a job's status changes."""

from django.db import transaction
from django.utils import timezone

from jobs import holds
from jobs.events import event_note
from jobs.models import Job
from jobs.states import ENDED, Status, may_precede


def job_move(job: Job, to: str, note: str = "", *, level: str = "info", **fields) -> bool:
    """Move the job if its present status allows, and tell it; False means another was first."""
    with transaction.atomic():
        waiting = Job.objects.filter(pk=job.pk, status__in=may_precede(to))
        moved = waiting.update(status=to, status_note=note, **fields) == 1
        if moved and note:
            event_note(job, note, level=level)
        if moved and (to in ENDED or to == Status.PAUSED):
            holds.job_settle(job)
    job.refresh_from_db()
    return moved


def job_fail(job: Job, code: str, message: str, *, param: str | None = None) -> bool:
    """End a job by an error. There is no failed job without code, message and event."""
    error = {"code": code, "message": message, "param": param}
    return job_move(job, Status.FAILED, message, level="error", error=error, finished_at=timezone.now(), process={})
