"""Copies new train steps of running and ended jobs to the sinks of their team. A sink that fails never touches the job."""

import math
from datetime import timedelta

import structlog
from django.db.models import Q
from django.utils import timezone

from jobs.events import event_note
from jobs.models import Job, TrainStep
from jobs.states import ENDED
from rftstudio.core.errors import StudioError, UpstreamUnavailable
from rftstudio.notify.models import Sink, SinkRun
from rftstudio.notify.sinks.registry import own_settings, writer_of

log = structlog.get_logger(__name__)
#: Steps copied in one go, failures after which a run is given up, and how long one worker holds a run.
STEPS, MOST_FAILURES, LEASE = 500, 8, timedelta(minutes=5)


def sinks_sweep() -> int:
    """Copy what is new; returns how many runs were moved on."""
    moved = 0
    for sink in Sink.objects.filter(is_active=True).select_related("team"):
        for job in _jobs_of(sink):
            moved += sink_copy(sink=sink, job=job)
    return moved


def _jobs_of(sink: Sink) -> list[Job]:
    """Jobs with steps that ran when the sink was made, or came later, and are not copied to their end."""
    runs = SinkRun.objects.filter(sink=sink)
    begun, done = runs.values("job"), runs.filter(is_finished=True).values("job")
    fresh = Q(created_at__gte=sink.created_at) | Q(finished_at=None) | Q(pk__in=begun)
    return list(Job.objects.filter(fresh, team=sink.team, done_steps__gt=0).exclude(pk__in=done).order_by("id")[:20])


def sink_copy(*, sink: Sink, job: Job) -> bool:
    """One job's new steps. Claimed first, so that two workers do not copy the same step."""
    now = timezone.now()
    run, _ = SinkRun.objects.get_or_create(sink=sink, job=job)
    free = SinkRun.objects.filter(pk=run.pk, is_finished=False).filter(Q(next_at=None) | Q(next_at__lte=now))
    if free.update(next_at=now + LEASE) != 1:
        return False
    run.refresh_from_db()
    steps = list(TrainStep.objects.filter(job=job, number__gt=run.last_step).order_by("number")[:STEPS])
    ended = job.status if job.status in ENDED and len(steps) < STEPS else ""
    if not steps and not ended:
        SinkRun.objects.filter(pk=run.pk).update(next_at=None)
        return False
    try:
        rows = [(step.number, numbers_of(step)) for step in steps]
        external = writer_of(sink, job).write(job, run.external_id, rows, ended=ended)
    except StudioError as exc:
        _note_failure(sink, run, job, exc)
        return False
    last = steps[-1].number if steps else run.last_step
    SinkRun.objects.filter(pk=run.pk).update(
        external_id=external, last_step=last, is_finished=bool(ended), failures=0, next_at=None
    )
    Sink.objects.filter(pk=sink.pk).exclude(note="").update(note="")
    return True


def numbers_of(step: TrainStep) -> dict[str, float]:
    """The step's figures that are numbers, parts of the reward by name."""
    own = step.metrics.get("studio") or {}
    found = {name: value for name, value in step.metrics.items() if name != "studio"}
    found |= {f"sub_reward/{name}": value for name, value in (own.get("sub_rewards") or {}).items()}
    found |= {"mean_reward": step.mean_reward, "validation_reward": step.validation_reward}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    }


def _note_failure(sink: Sink, run: SinkRun, job: Job, exc: StudioError) -> None:
    """Later again for what may heal; what was refused, or failed often, is given up and said on the page, and to whoever
    sent the job with such an integration."""
    failures = run.failures + 1
    is_over = failures >= MOST_FAILURES or not isinstance(exc, UpstreamUnavailable)
    later = timezone.now() + timedelta(seconds=min(30 * 2**failures, 3600))
    SinkRun.objects.filter(pk=run.pk).update(failures=failures, next_at=later, is_finished=is_over)
    Sink.objects.filter(pk=sink.pk).update(note=exc.message[:300])
    if is_over and own_settings(sink, job):
        event_note(job, f"Metrics are no longer copied to {sink.get_kind_display()}. {exc.message}", level="warn")
    log.warning("sink.failed", sink=sink.public_id, kind=sink.kind, failures=failures, given_up=is_over)
