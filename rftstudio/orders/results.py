"""The result file of an ended job: one CSV line for each train step, columns as the hosted service writes them."""

import csv
import io
from typing import Any

from django.utils import timezone

from datasets.models import SourceFile
from datasets.services import source_file_upload
from jobs.models import TrainStep
from rftstudio.orders.models import FileNote, JobOrder
from rftstudio.teams.actor import system_actor

FIRST = (
    "step", "train_mean_reward", "full_valid_mean_reward", "completion_tokens_mean", "reasoning_tokens_mean",
    "mean_unresponsive_rewards", "sampling_duration", "training_duration", "eval_duration", "total_duration",
)  # fmt: skip
#: A supervised job's, as the hosted service wrote them; what it learnt is measured by the validation reward.
FIRST_SUPERVISED = ("step", "train_loss", "train_accuracy", "full_valid_mean_reward", "total_duration")
_OWN = ("entropy", "kl", "grad_norm", "loss", "learning_rate")


def result_file_make(order: JobOrder) -> None:
    """Write the file once; a job without a train step has none."""
    lines = [_line(step.number, step.metrics) for step in TrainStep.objects.filter(job=order.job).order_by("number")]
    made = None
    if lines:
        content = io.BytesIO(_csv(lines, FIRST_SUPERVISED if order.is_supervised else FIRST))
        made = source_file_upload(
            actor=system_actor(order.team),
            filename=f"{order.public_id}-results.csv",
            content=content,
            purpose=SourceFile.RESULTS,
        )
        FileNote.objects.create(source_file=made, status=FileNote.Status.PROCESSED)
    JobOrder.objects.filter(pk=order.pk).update(result_file=made, finished_at=timezone.now())


def _csv(lines: list[dict[str, Any]], first: tuple[str, ...]) -> bytes:
    names = list(dict.fromkeys([*first, *(name for line in lines for name in line)]))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue().encode()


def _line(step: int, metrics: dict[str, Any]) -> dict[str, Any]:
    timing = (metrics.get("timing") or {}).get("step") or {}
    line = {"step": step, **{name: metrics.get(name) for name in FIRST[1:6]}}
    line |= {"sampling_duration": timing.get("sampling"), "training_duration": timing.get("training")}
    line |= {
        "eval_duration": timing.get("eval"),
        "total_duration": timing.get("full_iteration", metrics.get("seconds")),
    }
    for part in (metrics.get("scores") or {}).get("graders") or []:
        for phase in ("train", "valid"):
            line[f"scores/graders/{part['type']}/{part['name']}/{phase}_reward_mean"] = part.get(f"{phase}_reward_mean")
    for part in (metrics.get("errors") or {}).get("graders") or []:
        for name, value in part.items():
            if name not in ("name", "type"):
                line[f"errors/graders/{part['type']}/{part['name']}/errors/{name}"] = value
    line |= {"train_loss": metrics.get("train_loss"), "train_accuracy": metrics.get("train_mean_token_accuracy")}
    line |= {f"tool_calls_to_{name}": value for name, value in (metrics.get("tools") or {}).items()}
    line |= {name: metrics[name] for name in _OWN if name in metrics}
    return {name: value for name, value in line.items() if value is not None}
