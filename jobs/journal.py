"""A backend's events become our rows: rollouts, train steps, metrics, checkpoints, story.

Each function writes the same rows when it is given the same events again; the caller moves the cursor in the same
transaction, so a crash between the two loses and doubles nothing.
"""

from collections.abc import Iterable
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from django.utils import timezone

from jobs import costs, holds, selectors, tasks
from jobs.backends.registry import backend_get
from jobs.evaluations.selectors import batch_rows
from jobs.events import event_keep, event_note, moment, plain
from jobs.figures import batch_figures, reward_interval, sub_reward_means
from jobs.models import Checkpoint, Job, TrainStep
from jobs.rollouts import services as rollout_services
from jobs.rollouts.cleaning import clean, finite
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.states import ENDED, Status, may_precede
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import system_actor

Kind = RolloutBatch.Kind
PHASES = {"train": Kind.TRAIN_STEP, "validation": Kind.VALIDATION}


def events_apply(job: Job, events: Iterable[dict[str, Any]]) -> None:
    """Take in one chunk, in order. Rollouts of one train step that follow each other go in together."""
    for key, lines in groupby(events, key=_run_of):
        if key[0] == "rollout":
            _rollouts(job, key[1], key[2], list(lines))
            continue
        for line in lines:
            apply = _APPLY.get(line.get("type"))
            if apply:
                apply(job, line)
            else:
                event_keep(job, line, f"The trainer reported {line.get('type')!r}.", data=plain(line))


def _run_of(line: dict[str, Any]) -> tuple:
    if line.get("type") == "rollout":
        return "rollout", line.get("phase", "train"), line.get("step")
    return line.get("type"), None, None


def batch_of(job: Job, phase: str, step: int) -> RolloutBatch:
    """The batch of a train step or of a check on validation; made when its first rollout comes home."""
    kind = PHASES.get(phase, Kind.TRAIN_STEP)
    found = RolloutBatch.objects.filter(source=job.public_id, kind=kind, train_step=step).first()
    if found:
        return found
    baseline = job.baseline
    return rollout_services.batch_create(
        actor=system_actor(job.team),
        kind=kind,
        source=job.public_id,
        items=[],
        samples_per_item=job.plan.get("group_size", 1),
        agent_version=baseline.agent_version,
        grader_version=baseline.grader_version,
        model=job.base_model,
        policy_label=f"train step {step}" if step else "base",
        pass_threshold=baseline.grader_version.pass_threshold,
        train_step=step,
        queue=False,
        dataset_version=baseline.dataset_version,
    )


def _rollouts(job: Job, phase: str, step: int, lines: list[dict[str, Any]]) -> None:
    records = [RolloutRecord.from_dict(plain(line["record"])) for line in lines]
    rollout_services.batch_record(batch=batch_of(job, phase, step), records=records, replace=True)
    costs.judges_charge(job, step=step, records=records, at=moment(lines[-1]))


def _started(job: Job, line: dict[str, Any]) -> None:
    """A new attempt runs the train steps after `from_step` again, so what an earlier one left there goes."""
    attempt, from_step = int(line.get("attempt") or 1), int(line.get("from_step") or 0)
    if attempt > 1:
        _discard_after(job, from_step)
    job.total_steps = int(line.get("total_steps") or job.total_steps)
    job.done_steps = from_step
    job.started_at = job.started_at or moment(line)
    job.process = {**job.process, "attempt": attempt, "device": line.get("device"), "threads": line.get("threads")}
    job.save(update_fields=["total_steps", "done_steps", "started_at", "process"])
    words = (
        "Training started." if attempt == 1 else f"Training goes on after train step {from_step}, attempt {attempt}."
    )
    data = {key: line.get(key) for key in ("attempt", "from_step", "total_steps", "device", "threads", "versions")}
    event_keep(job, line, words, data=plain(data))


def _discard_after(job: Job, step: int) -> None:
    """Rows of train steps that are run again. The usage they caused stays booked."""
    later = RolloutBatch.objects.filter(source=job.public_id, kind__in=PHASES.values(), train_step__gt=step)
    TrainStep.objects.filter(job=job, number__gt=step).delete()
    Checkpoint.objects.filter(job=job, step_number__gt=step, model=None).delete()
    Rollout.objects.filter(batch__in=later).delete()


def _step(job: Job, line: dict[str, Any]) -> None:
    number = int(line["step"])
    bad: list[str] = []
    metrics = plain(line.get("metrics") or {}, bad=bad)
    if bad:
        metrics["not_numbers"] = bad
    seconds = float(line.get("seconds") or 0.0)
    metrics.setdefault("seconds", seconds)
    metrics.setdefault("step", number)  # readers of the wire's event find the train step there
    metrics.setdefault("total_steps", int(line.get("total_steps") or job.total_steps))
    if job.is_supervised:  # under the reference's names too; a hosted trainer tells them so itself
        for theirs, ours in (("train_loss", "loss"), ("train_mean_token_accuracy", "mean_token_accuracy")):
            if metrics.get(ours) is not None:
                metrics.setdefault(theirs, metrics[ours])
    attempt = int(job.process.get("attempt") or 1)
    batch = RolloutBatch.objects.filter(source=job.public_id, kind=Kind.TRAIN_STEP, train_step=number).first()
    if batch:
        metrics["studio"] = batch_figures(batch_rows(batch), pass_threshold=batch.pass_threshold)
    checked = RolloutBatch.objects.filter(source=job.public_id, kind=Kind.VALIDATION, train_step=number).first()
    checks = batch_rows(checked, with_tools=False) if checked else []
    if checks:
        metrics["studio_validation"] = {"interval": reward_interval(checks), "sub_rewards": sub_reward_means(checks)}
    TrainStep.objects.update_or_create(
        job=job,
        number=number,
        defaults={
            "attempt": attempt,
            "batch": batch,
            "metrics": metrics,
            "mean_reward": finite(metrics.get("train_mean_reward")),
            "validation_reward": finite(metrics.get("full_valid_mean_reward")),
            "rollouts": metrics["studio"]["rollouts"] if batch else 0,
            "validation_rollouts": len(checks),
            "at": moment(line),
            "is_credited": False,
        },
    )
    job.done_steps = number
    job.total_steps = int(line.get("total_steps") or job.total_steps)
    job.save(update_fields=["done_steps", "total_steps"])
    event_keep(job, line, step_message(number, job.total_steps, metrics), type="metrics", data=metrics)
    if bad:
        event_note(job, f"Train step {number}: {', '.join(bad)} is not a number and was left empty.", level="warn")
    costs.step_charge(job, step=number, attempt=attempt, seconds=seconds, at=moment(line))
    if selectors.uncredited(job).count() >= selectors.CREDIT_TOGETHER:
        queue(tasks.job_credit, job.pk)


def step_message(step: int, total: int, metrics: dict[str, Any]) -> str:
    """The wire's wording of a metrics event; the parts on validation only where it was checked."""
    parts = [f"Step {step}/{total}"]
    for key, words in (
        ("train_loss", "training loss"),
        ("train_mean_reward", "train mean reward"),
        ("full_valid_mean_reward", "full validation mean reward"),
        ("full_valid_mean_parse_error", "full validation mean parse error"),
    ):
        if finite(metrics.get(key)) is not None:
            parts.append(f"{words}={metrics[key]:.2f}")
    return ", ".join(parts)


def _checkpoint(job: Job, line: dict[str, Any]) -> None:
    reward = finite(line.get("validation_reward"))
    checkpoint, _ = Checkpoint.objects.update_or_create(
        job=job,
        step_number=int(line["step"]),
        defaults={
            "team": job.team,
            "path": _path(job, clean(str(line.get("path") or ""))),
            "digest": str(line.get("digest") or "")[:64],
            "validation_reward": reward,
            "metrics": plain(line.get("metrics") or {}),
            "is_deleted": False,
        },
    )
    if reward is not None:
        TrainStep.objects.filter(job=job, number=checkpoint.step_number).update(validation_reward=reward)
    best_choose(job)
    words = f"Checkpoint saved at train step {checkpoint.step_number}"
    words += f", validation reward {reward:.2f}." if reward is not None else "."
    event_keep(job, line, words, data={"checkpoint": checkpoint.public_id, "validation_reward": reward})


def _path(job: Job, told: str) -> str:
    """A folder of the run; of a provider that keeps the weights, the name by which it serves them."""
    return str(Path(job.run_dir) / told) if _gives_weights(job) else told


def _gives_weights(job: Job) -> bool:
    return backend_get(job.backend).capabilities.gives_weights


def best_choose(job: Job) -> None:
    """The best checkpoint: highest validation reward, of equals the latest; without any check the last."""
    kept = list(Checkpoint.objects.filter(job=job, is_deleted=False)) or list(Checkpoint.objects.filter(job=job))
    low = float("-inf")
    job.best_checkpoint = max(
        kept,
        key=lambda one: (one.validation_reward if one.validation_reward is not None else low, one.step_number),
        default=None,
    )
    job.save(update_fields=["best_checkpoint"])


def checkpoints_look(job: Job) -> None:
    """The trainer keeps the best few and the last; note which folders have gone."""
    if not _gives_weights(job):
        return
    for checkpoint in Checkpoint.objects.filter(job=job, is_deleted=False):
        if checkpoint.path.startswith("/") and not Path(checkpoint.path).is_dir():
            Checkpoint.objects.filter(pk=checkpoint.pk).update(is_deleted=True)


def _log(job: Job, line: dict[str, Any]) -> None:
    level = {"warning": "warn", "critical": "error"}.get(str(line.get("level")), str(line.get("level") or "info"))
    kind, data = str(line.get("kind") or "message")[:24], plain(line.get("data"))
    event_keep(job, line, clean(str(line.get("message") or "")), level=clean(level[:8]), type=clean(kind), data=data)


def _finished(job: Job, line: dict[str, Any]) -> None:
    """The trainer's last word decides the status, unless a person was quicker and the table forbids it."""
    status, error = str(line.get("status")), plain(line.get("error"))
    report = {key: plain(line.get(key)) for key in ("status", "train_steps", "rollouts", "seconds", "best_step")}
    to, note, level = _outcome(job, status, error, by_provider=line.get("reason") == "provider")
    fields: dict[str, Any] = {"status": to, "status_note": note, "result": report, "process": {}}
    if to == Status.FAILED:
        fields["error"] = error_of(error)
    if to not in (Status.QUEUED, Status.PAUSED):
        fields["finished_at"] = moment(line)
    if to == Status.QUEUED:
        fields["queued_at"] = timezone.now()
    Job.objects.filter(pk=job.pk, status__in=may_precede(to)).update(**fields)
    job.refresh_from_db()
    if job.status in ENDED or job.status == Status.PAUSED:
        holds.job_settle(job)
    if job.status in ENDED:
        _set_expiry(job)
    queue(tasks.job_credit, job.pk)
    event_keep(job, line, note, level=level, data={**report, "error": job.error if to == Status.FAILED else None})


def _set_expiry(job: Job) -> None:
    """The plan may let an ended job's checkpoints go after some days; the best one stays."""
    if (days := job.plan.get("keep_days")) and _gives_weights(job):
        rows = Checkpoint.objects.filter(job=job, expires_at=None).exclude(pk=job.best_checkpoint_id)
        rows.update(expires_at=timezone.now() + timedelta(days=days))


def _outcome(job: Job, status: str, error: Any, *, by_provider: bool = False) -> tuple[str, str, str]:
    if status == "succeeded":
        return Status.SUCCEEDED, f"Finished after {job.done_steps} train steps.", "info"
    if status == "paused" and job.status == Status.CANCELLING:
        return Status.CANCELLED, f"Cancelled at train step {job.done_steps}. {kept_words(job)}", "info"
    if status == "paused" and job.status == Status.RUNNING and by_provider:
        return Status.PAUSED, f"The provider paused it at train step {job.done_steps}.", "warn"
    if status == "paused" and job.status == Status.RUNNING:
        words = "The machine was shut down. The train step was saved, and the job goes on by itself."
        return Status.QUEUED, words, "warn"
    if status == "paused":
        note = job.status_note or "Paused."
        return Status.PAUSED, f"{note} Saved at train step {job.done_steps}.", "info"
    if status == "cancelled":
        return (
            Status.CANCELLED,
            f"Cancelled at train step {job.done_steps}. {kept_words(job)} {job.status_note}".strip(),
            "info",
        )
    found = error_of(error)
    return Status.FAILED, found["message"], "error"


def kept_words(job: Job) -> str:
    """What an ended job leaves behind, counted."""
    rollouts = Rollout.objects.filter(batch__source=job.public_id, batch__kind=Kind.TRAIN_STEP).count()
    checkpoints = Checkpoint.objects.filter(job=job, is_deleted=False).count()
    kept = ", ".join(
        f"{number:,} {word}{'' if number == 1 else 's'}"
        for number, word in ((job.done_steps, "train step"), (rollouts, "rollout"), (checkpoints, "checkpoint"))
    )
    return f"Kept: {kept}. The train step at work was dropped."


def error_of(error: Any) -> dict[str, Any]:
    """An error in the wire's shape: never without code and message."""
    error = error if isinstance(error, dict) else {}
    return {
        "code": str(error.get("code") or "trainer_error"),
        "message": str(
            error.get("message") or "The trainer stopped and gave no reason. Its log is in the run's folder."
        ),
        "param": error.get("param"),
    }


_APPLY = {
    "started": _started,
    "step": _step,
    "checkpoint": _checkpoint,
    "log": _log,
    "finished": _finished,
}
