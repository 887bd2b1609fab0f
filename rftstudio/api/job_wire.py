"""Jobs, events and checkpoints as the reference writes them.

Statuses are the reference's own but for two: a job that is pausing or cancelling still runs, so it is `running` here, and
`studio.status` has the finer word. `studio` says which backend and weights stand behind `model`, and where to look.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from graders.secrets import shown_config
from jobs.agents.selectors import frozen_specs
from jobs.agents.tools.http import shown_url
from jobs.models import Checkpoint, Job, JobEvent, TrainStep
from jobs.plan import WIRE_NAMES
from jobs.states import Status
from rftstudio.orders.models import JobOrder
from rftstudio.orders.named import tail, tuned_name

#: Hyperparameters of the reference's supervised method.
SUPERVISED_NAMES = ("n_epochs", "batch_size", "learning_rate_multiplier")
#: Ours → the reference's.
ON_THE_WIRE: dict[str, str] = {Status.PAUSING: "running", Status.CANCELLING: "running"}
OPEN_STAGES: dict[str, str] = {JobOrder.Stage.FILES: "validating_files", JobOrder.Stage.BASELINE: "validating_files"}
PARTS = (
    "team", "base_model", "best_checkpoint", "baseline__agent_version", "baseline__grader_version",
    "baseline__dataset_version", "order__training_file", "order__validation_file", "order__result_file",
)  # fmt: skip
ORDER_PARTS = ("team", "model", "training_file", "validation_file", "grader_version", "dataset_version", "baseline")


class JobWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    created_at = serializers.IntegerField()
    finished_at = serializers.IntegerField(allow_null=True)
    model = serializers.CharField()
    fine_tuned_model = serializers.CharField(allow_null=True)
    organization_id = serializers.CharField()
    status = serializers.ChoiceField(
        ["validating_files", "queued", "running", "paused", "succeeded", "failed", "cancelled"]
    )
    error = serializers.DictField(allow_null=True)
    hyperparameters = serializers.DictField()
    method = serializers.DictField()
    training_file = serializers.CharField(allow_blank=True)
    validation_file = serializers.CharField(allow_null=True)
    result_files = serializers.ListField(child=serializers.CharField())
    trained_tokens = serializers.IntegerField(allow_null=True)
    estimated_finish = serializers.IntegerField(allow_null=True)
    seed = serializers.IntegerField()
    integrations = serializers.ListField(child=serializers.DictField())
    metadata = serializers.DictField(allow_null=True)
    user_provided_suffix = serializers.CharField(allow_null=True)
    shared_with_openai = serializers.BooleanField()
    eval_id = serializers.CharField(allow_null=True)
    usage_metrics = serializers.DictField(allow_null=True)
    studio = serializers.DictField(help_text="What stands behind it here.")


class JobListWire(serializers.Serializer):
    object = serializers.CharField()
    data = JobWire(many=True)
    has_more = serializers.BooleanField()


def seconds(moment: Any) -> int | None:
    return int(moment.timestamp()) if moment else None


def eval_id(public_id: str) -> str:
    return f"eval_{tail(public_id)}"


def wire_order(order: JobOrder) -> dict[str, Any]:
    """A job that is not launched yet, or never was."""
    return _common(order.public_id, order.team, order) | {
        "created_at": seconds(order.created_at),
        "finished_at": seconds(order.finished_at),
        "model": order.model_name,
        "fine_tuned_model": None,
        "status": OPEN_STAGES.get(order.stage, order.stage),
        "error": order.error,
        "hyperparameters": order.inner["hyperparameters"] if order.is_supervised else {},
        "method": order.method,
        "result_files": [],
        "trained_tokens": None,
        "estimated_finish": None,
        "seed": order.seed,
        "usage_metrics": None,
        "studio": {
            "status": order.stage,
            "note": order.get_stage_display(),
            "backend": order.backend,
            "base_model": order.model.name,
            "baseline": order.baseline.public_id if order.baseline else None,
            "dataset_version": order.dataset_version.public_id if order.dataset_version else None,
            "grader_version": order.grader_version.public_id,
        },
    }


def wire_jobs(jobs: Iterable[Job], *, left: dict[int, float | None] | None = None) -> dict[int, dict[str, Any]]:
    """Job key → object, with one query for the usage of all of them. `left`: seconds each still takes, where known."""
    jobs = list(jobs)
    used = usage_of(jobs)
    return {job.pk: _wire_job(job, used[job.pk], (left or {}).get(job.pk)) for job in jobs}


def _wire_job(job: Job, usage: dict[str, Any] | None, seconds_left: float | None) -> dict[str, Any]:
    order: JobOrder | None = getattr(job, "order", None)
    baseline, best = job.baseline, job.best_checkpoint
    is_done = job.status == Status.SUCCEEDED and best is not None and (not best.is_deleted or best.model_id)
    finish = job.heartbeat_at.timestamp() + seconds_left if seconds_left and job.heartbeat_at else None
    method = method_of(job, order)
    return _common(job.public_id, job.team, order) | {
        "created_at": seconds(job.created_at),
        "finished_at": seconds(job.finished_at),
        "model": order.model_name if order else job.base_model.name,
        "fine_tuned_model": tuned_name(job, order) if is_done else None,
        "status": ON_THE_WIRE.get(job.status, job.status),
        "error": job.error,
        # The reference fills it for supervised jobs only.
        "hyperparameters": method["supervised"]["hyperparameters"] if job.is_supervised else {},
        "method": method,
        "result_files": _result_files(job, order),
        "trained_tokens": job.trained_tokens,
        "estimated_finish": int(finish) if finish else None,
        "seed": job.seed,
        "usage_metrics": None if job.is_supervised else usage,
        "studio": {
            "status": job.status,
            "note": job.status_note,
            "backend": job.backend,
            "base_model": job.base_model.name,
            "number": job.number,
            "train_steps": [job.done_steps, job.total_steps],
            "baseline": baseline.public_id,
            "dataset_version": baseline.dataset_version.public_id,
            "agent_version": baseline.agent_version.public_id,
            "grader_version": baseline.grader_version.public_id,
            "plan": job.plan,
        },
    }


def _result_files(job: Job, order: JobOrder | None) -> list[str]:
    """Our own table of train steps, and what a provider wrote."""
    own = [order.result_file.public_id] if order and order.result_file else []
    return own + list((job.result or {}).get("files") or [])


def _common(public_id: str, team: Any, order: JobOrder | None) -> dict[str, Any]:
    return {
        "id": public_id,
        "object": "fine_tuning.job",
        "organization_id": f"org-{tail(team.public_id)}",
        "training_file": order.training_file.public_id if order else "",
        "validation_file": order.validation_file.public_id if order and order.validation_file else None,
        "integrations": order.integrations if order else [],
        "metadata": order.metadata if order else None,
        "user_provided_suffix": (order.suffix if order else "") or None,
        "shared_with_openai": False,
        "eval_id": eval_id(public_id),
    }


def method_of(job: Job, order: JobOrder | None) -> dict[str, Any]:
    """The method with the numbers that are really used. A job from the page is told in the same shape."""
    used = {name: job.plan[name] for name in WIRE_NAMES if job.plan.get(name) is not None}
    if job.is_supervised:
        sent = order.inner["hyperparameters"] if order else {}
        return {
            "type": "supervised",
            "supervised": {"hyperparameters": sent | {name: used[name] for name in SUPERVISED_NAMES if name in used}},
        }
    if order:
        inner = order.inner
        return {"type": "reinforcement", "reinforcement": {**inner, "hyperparameters": inner["hyperparameters"] | used}}
    agent, grader = job.baseline.agent_version, job.baseline.grader_version
    told: dict[str, Any] = {
        "grader": shown_config(grader.config),
        "hyperparameters": used,
        "response_format": agent.response_format,
    }
    if specs := frozen_specs(agent):
        told["tools"] = [
            {"name": spec.name, "server_url": shown_url(str(spec.config.get("server_url") or f"studio://{spec.name}"))}
            for spec in specs
        ]
        told["max_episode_steps"] = agent.limits.get("max_steps")
    return {"type": "reinforcement", "reinforcement": told}


def usage_of(jobs: list[Job]) -> dict[int, dict[str, Any] | None]:
    """Seconds trained and the judges' tokens, summed over the train steps; None before the first."""
    spent: dict[int, float] = defaultdict(float)
    judges: dict[int, dict[str, dict[str, int]]] = defaultdict(dict)
    rows = TrainStep.objects.filter(job__in=[job.pk for job in jobs]).order_by("number")
    for job_id, step_seconds, tokens in rows.values_list(
        "job_id", "metrics__seconds", "metrics__model_graders_token_usage"
    ):
        spent[job_id] += step_seconds if isinstance(step_seconds, (int, float)) else 0.0
        for model, counts in (tokens or {}).items():
            _add_tokens(judges[job_id].setdefault(model, {}), counts)
    return {
        job.pk: {
            "type": "reinforcement",
            "training_time_seconds": round(spent[job.pk], 3),
            "model_grader_token_usage_per_model": judges[job.pk],
        }
        if job.pk in spent
        else None
        for job in jobs
    }


def _add_tokens(total: dict[str, int], counts: dict[str, int]) -> None:
    """`train_prompt_tokens` and `eval_prompt_tokens` are both prompt tokens of the job."""
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        used = sum(int(counts.get(f"{phase}_{name}") or 0) for phase in ("train", "eval"))
        total[name] = total.get(name, 0) + used
    total["total_tokens"] = total["prompt_tokens"] + total["completion_tokens"]


class EventWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    created_at = serializers.IntegerField()
    level = serializers.ChoiceField(["info", "warn", "error"])
    message = serializers.CharField()
    type = serializers.ChoiceField(["message", "metrics"])
    data = serializers.DictField(allow_null=True)


class EventListWire(serializers.Serializer):
    object = serializers.CharField()
    data = EventWire(many=True)
    has_more = serializers.BooleanField()


def wire_event(event: JobEvent) -> dict[str, Any]:
    return {
        "object": "fine_tuning.job.event",
        "id": event.public_id,
        "created_at": int(event.created_at.timestamp()),
        "level": event.level if event.level in ("info", "warn", "error") else "info",
        "message": event.message,
        "type": "metrics" if event.type == "metrics" else "message",
        "data": event.data if isinstance(event.data, dict) else None,
    }


def wire_story(line: dict[str, Any]) -> dict[str, Any]:
    """A line told before the launch, in the same shape and with the id it keeps."""
    return {
        "object": "fine_tuning.job.event",
        "id": line["id"],
        "created_at": int(line["at"]),
        "level": line["level"],
        "message": line["message"],
        "type": "message",
        "data": line["data"],
    }


class CheckpointWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    created_at = serializers.IntegerField()
    fine_tuned_model_checkpoint = serializers.CharField()
    fine_tuning_job_id = serializers.CharField()
    step_number = serializers.IntegerField()
    metrics = serializers.DictField()


class CheckpointListWire(serializers.Serializer):
    object = serializers.CharField()
    data = CheckpointWire(many=True)
    has_more = serializers.BooleanField()
    first_id = serializers.CharField(allow_null=True)
    last_id = serializers.CharField(allow_null=True)


#: Figures of the train step that a checkpoint repeats.
STEP_FIGURES = (
    "train_mean_reward", "full_valid_mean_reward", "completion_tokens_mean", "reasoning_tokens_mean", "train_loss",
    "train_mean_token_accuracy",
)  # fmt: skip


def wire_checkpoints(job: Job, rows: QuerySet[Checkpoint]) -> list[dict[str, Any]]:
    order: JobOrder | None = getattr(job, "order", None)
    kept = list(rows)
    steps = TrainStep.objects.filter(job=job, number__in=[row.step_number for row in kept])
    figures = dict(steps.values_list("number", "metrics"))
    return [
        {
            "object": "fine_tuning.job.checkpoint",
            "id": row.public_id,
            "created_at": int(row.created_at.timestamp()),
            "fine_tuned_model_checkpoint": tuned_name(job, order, row.step_number),
            "fine_tuning_job_id": job.public_id,
            "step_number": row.step_number,
            "metrics": _checkpoint_metrics(row, figures.get(row.step_number) or {}),
        }
        for row in kept
    ]


def _checkpoint_metrics(row: Checkpoint, step: dict[str, Any]) -> dict[str, Any]:
    told = {name: step[name] for name in STEP_FIGURES if step.get(name) is not None}
    own = {name: value for name, value in row.metrics.items() if isinstance(value, (int, float))}
    if row.validation_reward is not None:
        told["full_valid_mean_reward"] = row.validation_reward
    return {"step": row.step_number, **own, **told}
