"""Looking after jobs: one short look at a time, under a lease, by whichever worker comes first.

A look brings home what the backend reported, then judges whether the work still goes on. Nothing here waits: what is not
ready is looked at again. The lease is a column with an end; a worker that dies leaves it to run out, and one that was
only slow finds it gone at its next write and stops.
"""

import logging
import secrets
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from jobs import alarms, costs, holds, hosted, journal, selectors, tasks, troubles
from jobs.backends.base import Health, Run
from jobs.backends.registry import BACKENDS, backend_get
from jobs.events import event_note
from jobs.leases import Lease, LeaseLost, leased
from jobs.models import Job
from jobs.moves import job_fail, job_move
from jobs.spec import job_spec, run_spec
from jobs.states import ACTIVE, AT_WORK, ENDED, Status
from rftstudio.core.errors import StudioError, UpstreamRefused, UpstreamUnavailable
from rftstudio.core.queueing import queue
from rftstudio.usage import selectors as money
from rftstudio.usage import services as usage
from rftstudio.usage.models import Approval

logger = logging.getLogger(__name__)

#: A hosted provider may be slow to answer, and a start sends files and must not be made by two at once.
HOSTED_LEASE_SECONDS, START_LEASE_SECONDS = 150, 900
#: How often the beat asks for a look.
LOOK_SECONDS = 3.0
#: A hosted job at work is asked about less often: each look is several requests, and providers limit those.
HOSTED_LOOK_SECONDS = 10.0
#: Seconds that a trainer has to obey a cancel before it is killed.
CANCEL_GRACE = 4.0
_SLOT_LOCK = 4_170_231  # names our advisory lock among others in the same database


def is_local(job: Job) -> bool:
    return backend_get(job.backend).capabilities.is_local


def run_of(job: Job) -> Run:
    connection = {} if is_local(job) else hosted.connection_of(job)
    return Run(job.public_id, job.run_dir, job.external_id, job.process, connection)


def jobs_sync() -> int:
    """One look at every active job. One that breaks does not hold up the others."""
    looked = 0
    _obey_owners()
    for job_id in list(_due().order_by("id").values_list("pk", flat=True)):
        try:
            looked += job_sync(job_id=job_id)
        except Exception:  # even its trouble could not be noted, or it has been deleted meanwhile
            logger.exception("Job with the key %s could not be looked at", job_id)
    holds.settle_forgotten()
    _credit_again()
    return looked


def _due() -> QuerySet[Job]:
    """Active jobs, but for hosted ones that were asked about just now and that nobody wants to stop."""
    asked = timezone.now() - timedelta(seconds=HOSTED_LOOK_SECONDS)
    local = [name for name in BACKENDS if backend_get(name).capabilities.is_local]
    just_asked = Q(status=Status.RUNNING, heartbeat_at__gt=asked) & ~Q(backend__in=local)
    return Job.objects.filter(status__in=ACTIVE).exclude(just_asked)


def _obey_owners() -> None:
    """Jobs whose request was decided go on or end. Decision and move are one transaction, so each is obeyed once."""
    for approval in money.approvals_undone():
        job = Job.objects.filter(team=approval.team, public_id=approval.source).first()
        words = holds.decision_words(approval)
        with transaction.atomic():
            if not usage.approval_done(approval=approval) or job is None:
                continue
            if approval.status == Approval.Status.APPROVED:
                if not job_requeue(job, words) and job.status == Status.VALIDATING:
                    Job.objects.filter(pk=job.pk).update(status_note="")
                    event_note(job, words)
            elif job.status == Status.VALIDATING:
                job_move(job, Status.CANCELLED, words, level="warn", finished_at=timezone.now())
            else:
                Job.objects.filter(pk=job.pk, status=Status.PAUSED).update(status_note=words)
                event_note(job, words, level="warn")


def job_requeue(job: Job, words: str) -> bool:
    """Put a paused job back into the queue. Its rules look at later train steps and later money only."""
    spent = costs.job_cost(job)
    noted = {"resumed_at": job.done_steps, "resumed_usd": 0.0 if spent is None else float(spent)}
    if job.status != Status.PAUSED:
        return False
    return job_move(job, Status.QUEUED, words, queued_at=timezone.now(), process=noted)


def _credit_again() -> None:
    """Ended jobs whose credit is still missing a minute later: the message was lost, or its worker died."""
    quiet = Job.objects.filter(finished_at__isnull=False, updated_at__lt=timezone.now() - timedelta(minutes=1))
    waiting = quiet.filter(train_steps__is_credited=False, train_steps__batch__isnull=False).distinct()
    for job_id in waiting.values_list("pk", flat=True)[:20]:
        if quiet.filter(pk=job_id).update(updated_at=timezone.now()):
            queue(tasks.job_credit, job_id)


def job_sync(*, job_id: int) -> bool:
    """One look at a job: check, start, bring home, look after, as its status asks. False when another worker has it."""
    with leased(job_id) as lease:
        if lease is None:
            return False
        job = Job.objects.select_related(
            "team", "base_model", "baseline__agent_version", "baseline__grader_version", "baseline__dataset_version"
        ).get(pk=job_id)
        try:
            _look(job, lease)
            troubles.forget_faults(job)
        except LeaseLost:
            logger.warning("Another worker took over job %s", job.public_id)
        except UpstreamUnavailable as exc:
            # No fault of the job: it is looked at again, and the page says since when nothing was heard.
            logger.warning("Job %s: %s", job.public_id, exc)
            troubles.ask_later(job, exc, HOSTED_LOOK_SECONDS)
            return False
        except UpstreamRefused as exc:
            troubles.refused(job, exc)
            return False
        except Exception as exc:
            _fault(job, exc)
            return False
    return True


def _fault(job: Job, exc: Exception) -> None:
    """Our own error while looking after a job: logged whole under a number, told on the job, tried again a while."""
    reference = secrets.token_hex(4)
    logger.exception("Looking after job %s failed (reference %s)", job.public_id, reference)
    job.refresh_from_db()
    faults = int(job.process.get("faults") or 0) + 1
    Job.objects.filter(pk=job.pk).update(process={**job.process, "faults": faults})
    job.refresh_from_db()
    if faults == 1:
        event_note(
            job,
            f"Studio could not take in what the trainer reported (reference {reference}). It tries again.",
            level="warn",
        )
    if faults >= troubles.MOST_FAULTS:
        if job.status in AT_WORK:
            with suppress(StudioError):  # a provider that says no must not keep the job from ending
                backend_get(job.backend).cancel(run_of(job), grace=0)
        job_fail(
            job,
            "studio_error",
            f"Studio failed {faults} times while taking in what the trainer reported "
            f"({type(exc).__name__}, reference {reference}). The server's log has it whole.",
        )


def job_start(*, job_id: int) -> bool:
    """Check a new job and start it, or leave it in the queue. The same look as every other."""
    return job_sync(job_id=job_id)


def _look(job: Job, lease: Lease) -> None:
    if job.status == Status.VALIDATING and not holds.waits_for_approval(job):
        _validate(job)
    if troubles.is_left_alone(job):
        return
    if job.status == Status.QUEUED:
        _start_if_free(job, lease)
    elif job.status in AT_WORK:
        if not is_local(job):
            _look_far(job, lease)
        # Asked before the journal is read: a trainer that is dead by now has written all it ever will.
        health = backend_get(job.backend).health(run_of(job))
        _bring_home(job, lease)
        if job.status in AT_WORK:
            _look_after(job, health, lease)
    if job.status in ENDED and not is_local(job) and (batch_id := hosted.gateway_shut(job)):
        queue(tasks.batch_credit, batch_id)


def _look_far(job: Job, lease: Lease) -> None:
    """At a hosted job, before its events are read: they are many requests, and a wish does not wait for them. A job whose
    start was cut off, or whose worker died behind it, is asked for again; the provider knows a run by its id."""
    lease.lengthen(HOSTED_LEASE_SECONDS)
    if not job.external_id and job.status != Status.CANCELLING:
        _submit(job, lease)
    else:
        _obey(job)


def _validate(job: Job) -> None:
    backend = backend_get(job.backend)
    try:
        spec = job_spec(job)
        if not backend.capabilities.is_local and not job.is_supervised:
            spec["gateway"] = hosted.gateway_of(job)
        problems = backend.validate(spec)
    except StudioError as exc:
        job_fail(job, exc.code, str(exc), param=exc.where or None)
        return
    if problems:
        first = problems[0]
        job_fail(job, first.code, " ".join(filter(None, [first.message, first.fix])), param=first.param or None)
        return
    for notice in backend.notices(spec | {"base_url": job.base_model.base_url}):
        event_note(job, notice, level="warn")
    job_move(job, Status.QUEUED, "Files and grader are in order.", queued_at=timezone.now())


def slots() -> int:
    """How many self-hosted jobs may train at once on this installation."""
    return settings.STUDIO_TRAINER_SLOTS


def _claim_slot(job: Job) -> bool:
    """Move to running if a place is free. Two workers that claim for two jobs at once take turns."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_SLOT_LOCK])
        local = Job.objects.filter(backend=job.backend)
        ahead = local.filter(status=Status.QUEUED, queued_at__lt=job.queued_at).exclude(pk=job.pk).count()
        if local.filter(status__in=AT_WORK).count() + ahead >= slots():
            return False
        return job_move(job, Status.RUNNING)


def _start_if_free(job: Job, lease: Lease) -> None:
    if stopped := holds.stopped(job):
        if job.status_note != stopped:
            Job.objects.filter(pk=job.pk, status=Status.QUEUED).update(status_note=stopped)
        return
    if is_local(job):
        if not _claim_slot(job):
            return
    elif not job_move(job, Status.RUNNING):
        return
    _submit(job, lease)


def _submit(job: Job, lease: Lease) -> None:
    """Start the trainer, or go on from its newest checkpoint. Safe to repeat: a run that lives is not started twice."""
    backend = backend_get(job.backend)
    if not job.run_dir and backend.capabilities.is_local:
        # Noted first, so that a crash behind the start still finds the run's folder.
        job.run_dir = str(settings.RUNS_DIR / job.public_id)
        Job.objects.filter(pk=job.pk).update(run_dir=job.run_dir)
    if not backend.capabilities.is_local:
        lease.lengthen(START_LEASE_SECONDS)
    try:
        work = run_spec(job)
        if not backend.capabilities.is_local and not job.is_supervised:
            work.spec["gateway"] = hosted.gateway_of(job)
        run = backend.submit(run_of(job), work)
    except OSError as exc:
        logger.exception("The trainer of job %s could not be started", job.public_id)
        job_fail(job, "trainer_not_started", f"The trainer could not be started: {exc}")
        return
    except UpstreamUnavailable as exc:
        if not exc.may_have_acted:
            job_move(job, Status.QUEUED)
        raise
    except StudioError as exc:
        job_fail(job, exc.code, str(exc), param=exc.where or None)
        return
    Job.objects.filter(pk=job.pk).update(
        run_dir=run.run_dir,
        external_id=run.external_id,
        process={**job.process, **run.process},
        heartbeat_at=timezone.now(),
        started_at=job.started_at or timezone.now(),
    )
    job.refresh_from_db()
    _obey(job)


def _obey(job: Job) -> None:
    """Pass on a wish that came while the trainer was being started, or that was lost."""
    backend = backend_get(job.backend)
    if job.status == Status.PAUSING:
        try:
            backend.pause(run_of(job))
        except UpstreamRefused as exc:
            job_move(job, Status.RUNNING, f"It trains on: {exc}", level="warn")
    elif job.status == Status.CANCELLING:
        backend.cancel(run_of(job), grace=CANCEL_GRACE)


def _bring_home(job: Job, lease: Lease) -> None:
    """Read the journal to its end, a chunk to a transaction. Rows, cursor and lease move together or not at all."""
    backend = backend_get(job.backend)
    before = job.done_steps
    for chunk in backend.poll(run_of(job), job.journal_cursor):
        with lease.renewed():
            fresh = (
                Job.objects.select_for_update(of=("self",))
                .select_related("team", "baseline", "base_model")
                .get(pk=job.pk)
            )
            if fresh.journal_cursor != job.journal_cursor:
                raise LeaseLost(f"job {job.pk}: the cursor moved")
            journal.events_apply(fresh, chunk.events)
            Job.objects.filter(pk=job.pk).update(journal_cursor=chunk.cursor)
        job.refresh_from_db()
    journal.checkpoints_look(job)
    if job.done_steps != before and job.status == Status.RUNNING:
        _apply_rules(job)
    if job.status == Status.RUNNING:
        _watch_money(job)


def _apply_rules(job: Job) -> None:
    """Pause by the job's own rules. Resuming means a person looked, so the rules look at later train steps only."""
    since = int(job.process.get("resumed_at") or 0)
    steps = [step for step in selectors.step_figures(job) if step.number > since]
    cost = costs.job_cost(job)
    spent = None if cost is None else float(cost) - float(job.process.get("resumed_usd") or 0.0)
    opinions, muted = selectors.second_opinions(job, since=since), selectors.muted_of(job)
    reason = alarms.stop_reason(steps, job.plan, spent, opinions, muted)
    if reason:
        _pause(job, reason)


def _watch_money(job: Job) -> None:
    """Pause when what is held is used up. Where that comes sooner than the next look, another look is taken in time."""
    next_look = LOOK_SECONDS if is_local(job) else HOSTED_LOOK_SECONDS
    if reason := holds.stop_reason(job):
        _pause(job, reason)
    elif (seconds := holds.seconds_until_used_up(job)) is not None and seconds < next_look:
        queue(tasks.job_sync, job.pk, countdown=max(seconds, 0.2))


def _pause(job: Job, reason: str) -> None:
    if not job_move(job, Status.PAUSING, reason, level="warn"):
        return
    _obey(job)
    if job.status == Status.RUNNING and holds.stop_reason(job):
        # A provider that does not pause must not spend what nobody has held.
        job_move(job, Status.CANCELLING, f"{reason} It cannot be paused there, so it is ended.", level="warn")
        _obey(job)


def _look_after(job: Job, health: Health, lease: Lease) -> None:
    if health.is_alive and not health.heartbeat_at:
        Job.objects.filter(pk=job.pk).update(heartbeat_at=timezone.now())
    if health.heartbeat_at:
        Job.objects.filter(pk=job.pk).update(heartbeat_at=datetime.fromtimestamp(health.heartbeat_at, UTC))
    if job.status == Status.CANCELLING:
        if backend_get(job.backend).cancel(run_of(job), grace=CANCEL_GRACE):
            _ended(
                job,
                Status.CANCELLED,
                f"Cancelled at train step {job.done_steps}; the trainer was stopped. {journal.kept_words(job)}",
            )
        return
    if health.is_alive:
        _obey(job)
    elif not job.process.get("pid") and is_local(job):
        _submit(job, lease)  # the worker died between claiming the place and starting the trainer
    elif job.status == Status.PAUSING:
        _ended(
            job, Status.PAUSED, "Paused. The trainer had ended before it saved; it goes on from its last checkpoint."
        )
    else:
        _restart(job, health, lease)


def _ended(job: Job, to: str, note: str) -> None:
    fields = {} if to == Status.PAUSED else {"finished_at": timezone.now()}
    job_move(job, to, " ".join(filter(None, [job.status_note, note])), process={}, **fields)


def _restart(job: Job, health: Health, lease: Lease) -> None:
    """The trainer died without a last word: start it again from its newest checkpoint, a few times."""
    said = f" Its last words: {health.last_words}" if health.last_words else ""
    most = settings.STUDIO_TRAINER_RESTARTS
    if job.restarts >= most:
        job_fail(
            job, "trainer_died", f"The trainer died {job.restarts + 1} times, at train step {job.done_steps}.{said}"
        )
        return
    with transaction.atomic():
        held = Job.objects.filter(pk=job.pk, status=Status.RUNNING, restarts=job.restarts)
        if held.update(restarts=job.restarts + 1) != 1:
            return
        note = f"The trainer died at train step {job.done_steps}. It starts again from its newest checkpoint."
        event_note(job, note + said, level="warn")
    job.refresh_from_db()
    _submit(job, lease)
