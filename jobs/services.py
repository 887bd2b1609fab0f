"""Writes about jobs that a person asks for: launch, pause, resume, cancel.

What people decide about checkpoints lives in `checkpoints`, drafts of the launch form in `drafts`, what workers do by
themselves in `supervision`; their doors stand here too.
"""

import math
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.utils import timezone

from jobs import demonstrations as shown
from jobs import holds, selectors, tasks
from jobs import plan as plans
from jobs.attribution import services as attribution_services
from jobs.backends.registry import backend_get
from jobs.checkpoints import (
    checkpoint_delete,
    checkpoint_download,
    checkpoint_evaluate,
    checkpoint_expiry_set,
    checkpoint_promote,
    checkpoint_publish,
)
from jobs.drafts import draft_delete, draft_end, draft_save
from jobs.evaluations.facts import BLOCK, OK
from jobs.evaluations.models import Evaluation
from jobs.events import event_note
from jobs.models import Job, TrainStep
from jobs.moves import job_move
from jobs.plan_choices import check_taken
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.states import ENDED, Status
from jobs.supervision import CANCEL_GRACE, is_local, job_requeue, job_start, job_sync, jobs_sync, run_of
from rftstudio.core.errors import Conflict, UserError
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.services import audit

__all__ = [
    "alarm_mute",
    "batch_credit",
    "checkpoint_delete",
    "checkpoint_download",
    "checkpoint_evaluate",
    "checkpoint_expiry_set",
    "checkpoint_promote",
    "checkpoint_publish",
    "choice_of",
    "draft_delete",
    "draft_save",
    "job_cancel",
    "job_credit",
    "job_launch",
    "job_pause",
    "job_resume",
    "job_start",
    "job_sync",
    "jobs_sync",
]


class NotReady(Conflict):
    """The baseline's checks block a launch."""

    code = "not_ready"


def check_ready(
    actor: Actor, baseline: Evaluation, override: str, *, backend: str = "trl", standing_rule: str = "",
    method: str = Job.Method.REINFORCEMENT,
) -> dict[str, Any]:  # fmt: skip
    """The verdict, or NotReady with what blocks. A right-holder may overrule it with a reason, now or by a standing rule."""
    verdict = selectors.launch_verdict(baseline=baseline, backend=backend, method=method)
    blocks = [line for line in verdict["lines"] if line["level"] == BLOCK]
    if not blocks:
        return verdict
    reason = override.strip() if can(actor, Permission.BUDGET_APPROVE) else ""
    if (reason or standing_rule) and baseline.status == Evaluation.Status.SUCCEEDED:
        return verdict | {"override": reason or standing_rule, "by": actor.name if reason else "A rule of the console"}
    remedies = [line["remedy"]["label"] for line in blocks if line["remedy"]]
    raise NotReady(
        "The baseline is not ready. " + " ".join(f"{line['name']}: {line['evidence']}" for line in blocks),
        where="baseline",
        fix=". ".join(remedies) + "." if remedies else "",
    )


def _next_number(team: Team) -> int:
    Team.objects.select_for_update().get(pk=team.pk)
    return (Job.objects.filter(team=team).aggregate(last=Max("number"))["last"] or 0) + 1


def job_launch(
    *,
    actor: Actor,
    baseline: Evaluation,
    plan: dict[str, Any] | None = None,
    seed: int = 0,
    backend: str = "trl",
    name: str = "",
    launch_key: str = "",
    override: str = "",
    standing_rule: str = "",
    public_id: str = "",
    method: str = Job.Method.REINFORCEMENT,
    demonstrations: dict[str, Any] | None = None,
) -> Job:
    """Create a job from a finished baseline and queue its start. The same launch key finds the first job.

    `standing_rule`: why an administrator lets such jobs start although their baseline is not ready. `public_id`: the id
    under which the job is known already. A supervised job also says which `demonstrations` it learns from (see
    `jobs.demonstrations`).
    """
    check_can(actor, Permission.JOB_LAUNCH, team=baseline.team)
    if launch_key and (found := Job.objects.filter(team=actor.team, launch_key=launch_key).first()):
        return found
    choice = choice_of(method, demonstrations, baseline)
    verdict = check_ready(actor, baseline, override, backend=backend, standing_rule=standing_rule, method=method)
    ground = selectors.plan_ground(baseline, choice)
    filled = plans.plan_fill(plan, ground=ground)
    check_taken(filled, ground=ground, backend=backend)
    order = {"seed": seed, "backend": backend, "name": name.strip()[:120], "launch_key": launch_key, "method": method}
    order |= {"public_id": public_id} if public_id else {}
    try:
        with transaction.atomic():
            return _job_create(actor, baseline, filled, verdict, order | {"demonstrations": choice or {}})
    except IntegrityError:
        # Two clicks at once: the other one made the job.
        found = Job.objects.filter(team=actor.team, launch_key=launch_key).first() if launch_key else None
        if found is None:
            raise
        return found


def choice_of(method: str, wanted: dict[str, Any] | None, baseline: Evaluation) -> dict[str, Any] | None:
    """The demonstrations of a supervised job, checked; None for one that practises."""
    if method not in Job.Method.values:
        raise UserError(
            f"There is no method named {method}.", where="method", fix=f"Use one of {', '.join(Job.Method.values)}."
        )
    if method != Job.Method.SUPERVISED:
        return None
    choice = shown.choice_read(wanted, baseline=baseline)
    shown.check_enough(baseline, choice)
    return choice


def _job_create(
    actor: Actor, baseline: Evaluation, plan: dict[str, Any], verdict: dict[str, Any], order: dict[str, Any]
) -> Job:
    if not -(2**63) <= order["seed"] < 2**63:
        raise UserError("The seed is too large.", where="seed", fix="Write a whole number below 2147483648.")
    job = Job.objects.create(
        team=actor.team,
        created_by=actor.user,
        number=_next_number(actor.team),
        baseline=baseline,
        base_model=baseline.model,
        plan=plan,
        total_steps=plan["max_steps"],
        **order,
    )
    draft_end(actor=actor, job=job)
    derived, guess = selectors.job_estimate(
        baseline=baseline, plan=plan, backend=job.backend, choice=job.demonstrations or None
    )
    warnings = sum(line["level"] != OK for line in verdict["lines"])
    asked = holds.launch_hold(actor, job, derived, guess, warnings=warnings)
    words = f"Launched by {actor.name} from baseline {baseline.number}."
    event_note(job, words, data={"plan": plan, "estimate": guess.as_dict()})
    for line in verdict["lines"]:
        if line["level"] != OK:
            event_note(
                job,
                f"{line['name']}: {line['measured']}, wanted {line['wanted']}. {line['evidence']}",
                level="warn",
                type="readiness",
            )
    if override := verdict.get("override"):
        event_note(job, f"{verdict['by']} overruled the readiness check: {override}", level="warn", type="readiness")
        audit(
            actor,
            "job.readiness_overruled",
            job,
            reason=override,
            lines=[line["key"] for line in verdict["lines"] if line["level"] == BLOCK],
        )
    audit(actor, "job.launched", job, baseline=baseline.public_id, backend=job.backend, method=job.method)
    if asked:
        job.status_note = holds.waiting_note(asked)
        job.save(update_fields=["status_note"])
        event_note(job, job.status_note)
    else:
        queue(tasks.job_start, job.pk)
    return job


def job_pause(*, actor: Actor, job: Job, note: str = "") -> Job:
    """Ask a job to stop at its next train step; one that waits stops at once."""
    check_can(actor, Permission.JOB_LAUNCH, team=job.team)
    words = note.strip() or f"Stopped by {actor.name}."
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job.pk)
        to = Status.PAUSED if job.status == Status.QUEUED else Status.PAUSING
        if not job_move(job, to, words):
            raise Conflict(f"The job is {job.status}; only a waiting or running job can be paused.")
        audit(actor, "job.paused", job)
    if job.status == Status.PAUSING:
        if is_local(job):  # a provider is asked by the look, so that nobody waits here for its answer
            backend_get(job.backend).pause(run_of(job))
        queue(tasks.job_sync, job.pk)
    return job


def alarm_mute(*, actor: Actor, job: Job, key: str, is_muted: bool) -> Job:
    """Set an open alarm aside for this job: it counts no more and pauses nothing. Or take that back."""
    check_can(actor, Permission.JOB_LAUNCH, team=job.team)
    is_open = {one.key: one.name for one in selectors.job_alarms(job, selectors.step_figures(job)) if one.is_open}
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job.pk)
        muted = dict(job.muted_alarms)
        if (key in muted) == is_muted:
            return job
        if is_muted and key not in is_open:
            raise Conflict(f"No alarm named {key} is open on this job.", fix="Read its alarms again.")
        if is_muted:
            muted[key] = {"name": is_open[key], "by": actor.name, "at": timezone.now().isoformat()}
            words, deed = f"{actor.name} muted the alarm “{is_open[key]}” for this job.", "job.alarm_muted"
        else:
            name = muted.pop(key)["name"]
            words, deed = f"{actor.name} took back that the alarm “{name}” is muted.", "job.alarm_unmuted"
        Job.objects.filter(pk=job.pk).update(muted_alarms=muted)
        event_note(job, words)
        audit(actor, deed, job, alarm=key)
    job.refresh_from_db()
    return job


def job_resume(*, actor: Actor, job: Job) -> Job:
    """Put a paused job back into the queue; it goes on from its newest checkpoint.

    What the rest may cost is held anew. Where an owner has to approve that, the job stays paused until one has.
    """
    check_can(actor, Permission.JOB_LAUNCH, team=job.team)
    with transaction.atomic():
        job = (
            Job.objects.select_for_update(of=("self",))
            .select_related("team", "baseline__agent_version__agent")
            .get(pk=job.pk)
        )
        if job.status != Status.PAUSED:
            raise Conflict(f"The job is {job.status}; only a paused job can be resumed.")
        if asked := holds.resume_hold(actor, job):
            job.status_note = holds.waiting_note(asked)
            job.save(update_fields=["status_note"])
            return job
        job_requeue(job, f"Resumed by {actor.name}.")
        audit(actor, "job.resumed", job)
    queue(tasks.job_start, job.pk)
    return job


def job_cancel(*, actor: Actor, job: Job, note: str = "") -> Job:
    """End a job for good. One that waits ends at once; a trainer is asked, and killed after a few seconds."""
    check_can(actor, Permission.JOB_LAUNCH, team=job.team)
    words = " ".join(filter(None, [f"Cancelled by {actor.name}.", note.strip()]))
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job.pk)
        if job.status in ENDED:
            raise Conflict(f"The job has ended already ({job.status}).")
        if job.status == Status.CANCELLING:
            return job
        at_work = job.status in (Status.RUNNING, Status.PAUSING)
        ended = {} if at_work else {"finished_at": timezone.now(), "process": {}}
        job_move(job, Status.CANCELLING if at_work else Status.CANCELLED, words, **ended)
        audit(actor, "job.cancelled", job)
    if job.status == Status.CANCELLING:
        if is_local(job):  # asked at once, from here: the trainer may see it before any worker wakes up
            backend_get(job.backend).cancel(run_of(job), grace=math.inf)
        queue(tasks.job_sync, job.pk)
        queue(tasks.job_sync, job.pk, countdown=CANCEL_GRACE + 0.5)
    return job


def batch_credit(*, batch_id: int) -> None:
    """Credit the steps of one batch, such as what came home through a gateway. Again changes nothing."""
    batch = RolloutBatch.objects.filter(pk=batch_id).first()
    if batch:
        attribution_services.attribution_compute(rollouts=batch)


def job_credit(*, job_id: int) -> None:
    """Credit the steps of train rollouts that have none yet, many train steps at a time. Again changes nothing.

    The methods that learn from other rollouts cost the same for one train step as for many, so this waits until
    there are many: `selectors.CREDIT_TOGETHER` train steps, or the job's end. A page that opens earlier asks for its own group.
    """
    job = Job.objects.filter(pk=job_id).first()
    while job and (waiting := list(selectors.uncredited(job)[: selectors.CREDIT_TOGETHER])):
        rollouts = Rollout.objects.filter(batch__in=[step.batch_id for step in waiting])
        attribution_services.attribution_compute(rollouts=rollouts.only("id", "batch_id", "group_key"))
        TrainStep.objects.filter(pk__in=[step.pk for step in waiting]).update(is_credited=True)
