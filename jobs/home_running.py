"""What runs now: jobs, evaluations and imports, with progress and pace."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q
from django.utils import timezone

from datasets.models import DatasetVersion
from jobs.evaluations.models import Evaluation
from jobs.home_links import address, job_name
from jobs.models import Job, TrainStep
from jobs.rollouts.models import Rollout
from rftstudio.teams.models import Team

RECENT_STEPS = 60
JOB_AT_WORK = ("validating_files", "queued", "running", "pausing", "cancelling")
EVALUATION_AT_WORK = ("queued", "running")


@dataclass
class Running:
    """One thing at work. `total` None: unknown; `values`: recent mean rewards, for a spark."""

    kind: str
    icon: str
    name: str
    url: str
    status: str
    done: int
    total: int | None
    unit: str
    note: str = ""
    values: list[float | None] = field(default_factory=list)
    ungraded: int = 0


def running(*, team: Team) -> list[Running]:
    jobs = list(
        Job.objects.filter(team=team, status__in=JOB_AT_WORK)
        .select_related("baseline__agent_version__agent")
        .order_by("-id")[:20]
    )
    rewards = recent_rewards(jobs)
    rows = [
        Running(
            "Job", "job", job_name(job), address("jobs:job-detail", team.slug, job.public_id), job.status,
            job.done_steps, job.total_steps or None, "train steps", _job_note(job), rewards.get(job.pk, []),
        )
        for job in jobs
    ]  # fmt: skip
    evaluations = list(
        Evaluation.objects.filter(team=team, status__in=EVALUATION_AT_WORK)
        .select_related("agent_version__agent", "batch")
        .order_by("-id")[:20]
    )
    counts = batch_counts(evaluations)
    for row in evaluations:
        numbers = counts.get(row.batch_id, {})
        rows.append(
            Running(
                "Evaluation", "baseline", f"Evaluation {row.number} of {row.agent_version.agent.name}",
                address("evaluations:evaluation-detail", team.slug, row.public_id), row.status,
                numbers.get("settled", 0), numbers.get("all") or None, "rollouts", _pace(row.started_at, numbers),
                ungraded=numbers.get("ungraded", 0),
            )
        )  # fmt: skip
    imports = DatasetVersion.objects.filter(team=team, status="importing").select_related("dataset").order_by("-id")
    return rows + [_import_row(team, version) for version in imports[:20]]


def _import_row(team: Team, version: DatasetVersion) -> Running:
    return Running(
        "Import", "upload", f"Import: {version.dataset.name}",
        address("datasets:version-detail", team.slug, version.public_id), "importing",
        version.progress.get("rows", version.item_count), version.progress.get("rows_total"), "lines",
    )  # fmt: skip


def _job_note(job: Job) -> str:
    if job.status in ("queued", "validating_files"):
        return "waiting for a free machine" if job.status == "queued" else "checking files and grader"
    if not job.started_at or not job.done_steps or not job.total_steps or job.restarts:
        return ""
    spent = (timezone.now() - job.started_at).total_seconds()
    return _left(spent / job.done_steps * (job.total_steps - job.done_steps))


def _pace(started_at: Any, numbers: dict[str, int]) -> str:
    done, total = numbers.get("settled", 0), numbers.get("all", 0)
    if not started_at or not done:
        return ""
    return _left((timezone.now() - started_at).total_seconds() / done * (total - done))


def _left(seconds: float) -> str:
    if seconds < 60:
        return "under a minute left"
    minutes = round(seconds / 60)
    return f"about {minutes} min left" if minutes < 60 else f"about {minutes // 60} h {minutes % 60} min left"


def batch_counts(evaluations: Iterable[Evaluation]) -> dict[int, dict[str, int]]:
    ids = [row.batch_id for row in evaluations]
    if not ids:
        return {}
    settled = Q(status__in=("done", "failed", "cancelled"))
    rows = (
        Rollout.objects.filter(batch_id__in=ids)
        .values("batch_id")
        .annotate(
            all=Count("pk"), settled=Count("pk", filter=settled),
            ungraded=Count("pk", filter=settled & Q(reward__isnull=True)),
        )
    )  # fmt: skip
    return {row.pop("batch_id"): row for row in rows}


def recent_rewards(jobs: Iterable[Job]) -> dict[int, list[float | None]]:
    """The mean train rewards of the last steps of each job, in order."""
    wanted = Q()
    for job in jobs:
        if job.done_steps:
            wanted |= Q(job_id=job.pk, number__gt=job.done_steps - RECENT_STEPS, number__lte=job.done_steps)
    found: dict[int, list[float | None]] = defaultdict(list)
    if wanted:
        for job_id, reward in TrainStep.objects.filter(wanted).order_by("number").values_list("job_id", "mean_reward"):
            found[job_id].append(reward)
    return dict(found)
