"""Reads about jobs: rows for lists, figures for charts and alarms, place in the queue."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Q, QuerySet, Sum
from django.utils import timezone

from datasets.models import Item, SourceFile, Split
from jobs import costs, demonstrations
from jobs.alarms import Alarm, Opinion, alarms_of
from jobs.backends.registry import backend_get
from jobs.estimate import Estimate, PastRun, estimate
from jobs.evaluations import intervals, readiness
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import evaluation_list, readiness_facts
from jobs.figures import StepFigures
from jobs.models import Checkpoint, Job, JobEvent, TrainStep
from jobs.plan import Derived, Ground, plan_derive, weights_bytes
from jobs.rollouts.cleaning import finite
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.states import AT_WORK, Status
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team

#: Silent for longer than this, a job says so.
SILENT_SECONDS = 300
_PARTS = (
    "team", "base_model", "best_checkpoint", "created_by", "baseline__dataset_version__dataset",
    "baseline__agent_version__agent", "baseline__grader_version__grader",
)  # fmt: skip


def job_list(*, team: Team) -> QuerySet[Job]:
    """Newest first."""
    return Job.objects.filter(team=team).select_related(*_PARTS).order_by("-id")


def job_get(*, team: Team, public_id: str) -> Job:
    found = job_list(team=team).filter(public_id=public_id).first()
    if found is None:
        raise NotFound("There is no such job.")
    return found


def checkpoint_get(*, team: Team, public_id: str) -> Checkpoint:
    found = Checkpoint.objects.filter(team=team, public_id=public_id).select_related("job__team", "model").first()
    if found is None:
        raise NotFound("There is no such checkpoint.")
    return found


def checkpoint_list(job: Job) -> QuerySet[Checkpoint]:
    """Those whose weights are kept, newest first."""
    return Checkpoint.objects.filter(job=job, is_deleted=False).select_related("model").order_by("-step_number")


def result_files(job: Job) -> QuerySet[SourceFile]:
    """What a provider wrote about an ended job and we keep."""
    told = job.result or {}
    home = told.get("files") or list((told.get("files_home") or {}).values())  # the second while others are missing
    return SourceFile.objects.filter(team=job.team, public_id__in=home)


def baseline_list(*, team: Team) -> QuerySet[Evaluation]:
    """Finished evaluations, which a job may start from, newest first."""
    return evaluation_list(team=team).filter(status=Evaluation.Status.SUCCEEDED)


def baseline_lines(*, team: Team) -> QuerySet[Evaluation]:
    """The same, as far as a menu names them: without figures, prompts and datasets."""
    names = ("public_id", "number", "policy_label", "agent_version__number", "agent_version__agent__name")
    return baseline_list(team=team).select_related(None).select_related("agent_version__agent").only(*names)


def event_list(job: Job, *, before: str = "") -> QuerySet[JobEvent]:
    """Newest first, as on the wire; only those older than the event of that id."""
    rows = JobEvent.objects.filter(job=job).order_by("-created_at", "-id")
    place = rows.filter(public_id=before).first() if before else None
    if place is None:
        return rows
    return rows.filter(Q(created_at__lt=place.created_at) | Q(created_at=place.created_at, id__lt=place.id))


def plan_ground(baseline: Evaluation, choice: dict[str, Any] | None = None) -> Ground:
    """What a plan for this baseline is made for; with a choice of demonstrations these are what is passed over."""
    counts = dict(
        Item.objects.filter(version=baseline.dataset_version).values_list("split").annotate(n=Count("id")).order_by()
    )
    sampling = baseline.agent_version.sampling or {}
    return Ground(
        train_items=demonstrations.count(baseline, choice) if choice else counts.get(Split.TRAIN, 0),
        is_supervised=bool(choice),
        validation_items=counts.get(Split.VALIDATION, 0),
        weights_bytes=weights_bytes(baseline.model.model),
        agent_max_tokens=sampling.get("max_tokens"),
    )


def launch_notices(baseline: Evaluation, backend: str) -> list[str]:
    """What a person should know before the launch, such as the day a base model ends."""
    return backend_get(backend).notices({"base_model": baseline.model.model, "base_url": baseline.model.base_url})


#: Readiness lines that matter to learning from demonstrations: the others judge whether rewards can teach.
_SUPERVISED_LINES = {"finished", "grader_fields", "trainable", "items", "leak"}


def launch_verdict(*, baseline: Evaluation, backend: str, method: str = Job.Method.REINFORCEMENT) -> dict[str, Any]:
    """The baseline's readiness for this backend and method: a hosted backend trains the provider's own weights."""
    lines = readiness.readiness_lines(readiness_facts(baseline))
    if method == Job.Method.SUPERVISED:
        lines = [line for line in lines if line.key in _SUPERVISED_LINES]
    if not backend_get(backend).capabilities.is_local:
        lines = [line for line in lines if line.key != "trainable"]
    return readiness.verdict(lines)


def past_runs(*, team: Team, baseline: Evaluation, backend: str, most: int = 8) -> list[PastRun]:
    """Earlier finished jobs of the same agent and backend, newest first."""
    jobs = Job.objects.filter(
        team=team, backend=backend, status=Status.SUCCEEDED, baseline__agent_version__agent=baseline.agent_version.agent
    ).order_by("-id")[:most]
    runs = []
    for job in jobs:
        seconds, rollouts = finite(job.result.get("seconds")), finite(job.result.get("rollouts"))
        learnt = job.done_steps * int(job.plan.get("batch_size") or 0) if job.is_supervised else 0
        if seconds and (rollouts or learnt):
            runs.append(PastRun(job.number, seconds, int(rollouts or 0), rollout_counts(job)[1], learnt))
    return runs


def baseline_pace(baseline: Evaluation) -> float | None:
    """Seconds of the clock for one rollout while the baseline ran, many at once; None where it was not timed."""
    rollouts = baseline.metrics.get("rollouts")
    if not rollouts or not baseline.started_at or not baseline.finished_at:
        return None
    return max((baseline.finished_at - baseline.started_at).total_seconds(), 0.0) / rollouts or None


def job_estimate(
    *, baseline: Evaluation, plan: dict[str, Any], backend: str, choice: dict[str, Any] | None = None
) -> tuple[Derived, Estimate]:
    """What a filled plan comes to and what it will take."""
    derived = plan_derive(plan, ground=plan_ground(baseline, choice))
    price = costs.second_price(backend)
    found = estimate(
        derived,
        past=past_runs(team=baseline.team, baseline=baseline, backend=backend),
        rollout_seconds=baseline_pace(baseline),
        second_price=None if price is None else float(price),
    )
    return derived, found


def launch_estimate(job: Job) -> dict[str, Any] | None:
    """The estimate that was shown at launch; it stands in the job's first event."""
    first = JobEvent.objects.filter(job=job, data__has_key="estimate").order_by("id").first()
    return first.data["estimate"] if first else None


@dataclass(frozen=True)
class QueuePlace:
    """What a queued job waits for."""

    place: int
    ahead: list[Job]
    since: datetime | None


def queue_place(job: Job) -> QueuePlace:
    """1 is next. Jobs of other teams are counted, never shown."""
    others = Job.objects.filter(backend=job.backend).exclude(pk=job.pk)
    waiting = others.filter(status=Status.QUEUED, queued_at__lt=job.queued_at or timezone.now())
    running = others.filter(status__in=AT_WORK)
    ahead = [one for one in running.select_related("team") if one.team_id == job.team_id]
    return QueuePlace(waiting.count() + 1, ahead, job.queued_at)


def free_since(job: Job) -> datetime | None:
    """Since when nothing is in the way of a queued self-hosted job; None while a job at work or one before it is."""
    if job.queued_at is None:
        return None
    others = Job.objects.filter(backend=job.backend).exclude(pk=job.pk)
    ahead = Q(status__in=AT_WORK) | Q(status=Status.QUEUED, queued_at__lt=job.queued_at)
    if others.filter(ahead).count() >= settings.STUDIO_TRAINER_SLOTS:
        return None
    last = others.aggregate(end=Max("finished_at"), seen=Max("heartbeat_at"))
    return max(at for at in (job.queued_at, last["end"], last["seen"]) if at)


#: Train steps credited in one go; see services.job_credit.
CREDIT_TOGETHER = 32


def uncredited(job: Job) -> QuerySet[TrainStep]:
    """Train steps whose rollouts have no credit yet, oldest first."""
    return TrainStep.objects.filter(job=job, batch__isnull=False, is_credited=False).order_by("number")


def validation_intervals(job: Job, steps: list[int]) -> dict[int, tuple[float, float]]:
    """Train step → 90 % interval of the validation reward, read from rollouts: of steps that came home without one."""
    groups: dict[int, dict[str, list[float]]] = {}
    rows = Rollout.objects.filter(
        batch__source=job.public_id, batch__kind=RolloutBatch.Kind.VALIDATION, batch__train_step__in=steps,
        reward__isnull=False,
    ).values_list("batch__train_step", "group_key", "reward")  # fmt: skip
    for step, key, reward in rows.iterator(chunk_size=5000):
        groups.setdefault(step, {}).setdefault(key, []).append(reward)
    found = {step: intervals.mean_interval(list(items.values())) for step, items in groups.items()}
    return {step: interval for step, interval in found.items() if interval}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _numbers(value: Any) -> dict[str, float]:
    """The numbers under the names of an object; what else a hosted trainer sends under that key is none of them."""
    found = {str(name): finite(one) for name, one in _object(value).items()}
    return {name: one for name, one in found.items() if one is not None}


def _ends(value: Any) -> tuple[float, float] | tuple[None, None]:
    """An interval, or nothing."""
    ends = [finite(one) for one in value] if isinstance(value, list | tuple) else []
    return (ends[0], ends[1]) if len(ends) == 2 and None not in ends else (None, None)


def step_figures(job: Job, *, with_intervals: bool = False) -> list[StepFigures]:
    """Every train step in order, counted from our own rows where there are rows."""
    columns = ("number", "metrics", "mean_reward", "validation_reward", "validation_rollouts")
    rows = list(TrainStep.objects.filter(job=job).order_by("number").values(*columns))
    missing = [
        row["number"]
        for row in rows
        if with_intervals and row["validation_rollouts"] != 0 and "studio_validation" not in row["metrics"]
        and row["validation_reward"] is not None
    ]  # fmt: skip
    bounds = validation_intervals(job, missing) if missing else {}
    return [_figures(row, bounds.get(row["number"]), is_supervised=job.is_supervised) for row in rows]


def _figures(step: dict[str, Any], checked: tuple[float, float] | None, *, is_supervised: bool) -> StepFigures:
    """One train step. `checked`: the interval of its validation, where it came home without one."""
    metrics, own = step["metrics"], _object(step["metrics"].get("studio"))
    check = _object(metrics.get("studio_validation"))
    low, high = _ends(check.get("interval") or checked)
    reward_low, reward_high = _ends(own.get("interval"))
    return StepFigures(
        number=step["number"],
        mean_reward=step["mean_reward"] if step["mean_reward"] is not None else finite(own.get("mean_reward")),
        reward_low=reward_low,
        reward_high=reward_high,
        validation_reward=step["validation_reward"],
        validation_low=low,
        validation_high=high,
        groups=int(finite(own.get("groups")) or 0),
        groups_low=int(finite(own.get("groups_low")) or 0),
        groups_high=int(finite(own.get("groups_high")) or 0),
        groups_alike=int(finite(own.get("groups_alike")) or 0),
        ungraded_share=finite(own.get("ungraded_share")),
        tokens_mean=finite(own.get("tokens_mean", metrics.get("completion_tokens_mean"))),
        tools=_numbers(own.get("tools") or metrics.get("tools")),
        sub_rewards=_numbers(own.get("sub_rewards")),
        validation_sub_rewards=_numbers(check.get("sub_rewards")),
        decides=_numbers(own.get("decides")),
        seconds=finite(metrics.get("seconds")),
        loss=finite(metrics.get("loss", metrics.get("train_loss"))) if is_supervised else None,
        entropy=finite(metrics.get("entropy")),
        kl=finite(metrics.get("kl")),
        grad_norm=finite(metrics.get("grad_norm")),
    )


def second_opinions(job: Job, *, since: int = 0) -> list[Opinion]:
    """Evaluations of the job's checkpoints by another grader than its own, each beside one of the base on the same items."""
    served = Checkpoint.objects.filter(job=job, model__isnull=False, step_number__gt=since)
    numbers = dict(served.values_list("model_id", "step_number"))
    if not numbers:
        return []
    rows = Evaluation.objects.filter(
        team=job.team, status=Evaluation.Status.SUCCEEDED, model__in=[*numbers, job.base_model_id]
    ).exclude(grader_version__grader=job.baseline.grader_version.grader_id)
    by_items: dict[tuple, dict[int, Evaluation]] = {}
    for row in rows.select_related("grader_version__grader").order_by("id"):
        # The prompt is part of what is compared, and a seed chooses which items are taken where not all are.
        versions = (row.agent_version_id, row.grader_version_id, row.dataset_version_id)
        items = (*versions, row.split, row.max_items, row.seed if row.max_items else None)
        if finite((row.metrics or {}).get("mean_reward")) is not None:
            by_items.setdefault(items, {})[row.model_id] = row
    found = []
    for by_model in by_items.values():
        base = by_model.pop(job.base_model_id, None)
        for model_id, row in by_model.items() if base else ():
            means = base.metrics["mean_reward"], row.metrics["mean_reward"]
            found.append(Opinion(numbers[model_id], row.grader_version.grader.name, *means, row.public_id))
    return found


def job_alarms(job: Job, steps: list[StepFigures]) -> list[Alarm]:
    """Every judgement on the job; those that a person muted say by whom."""
    return alarms_of(steps, second_opinions(job), muted_of(job))


def muted_of(job: Job) -> dict[str, str]:
    """Key of each muted alarm → who muted it."""
    return {key: muted["by"] for key, muted in job.muted_alarms.items()}


@dataclass(frozen=True)
class JobState:
    """What the page says on top: silence, time left, money."""

    silent_since: datetime | None
    seconds_left: float | None
    percent: int
    cost: Decimal | None
    train_rollouts: int
    validation_rollouts: int


def rollout_counts(job: Job) -> tuple[int, int]:
    """Training and validation rollouts at home. Kept with each train step; what came through a gateway belongs to none."""
    if backend_get(job.backend).capabilities.gives_rollouts:
        kept = TrainStep.objects.filter(job=job).aggregate(
            train=Sum("rollouts"), validation=Sum("validation_rollouts"), unknown=Count("id", filter=Q(rollouts=None))
        )
        if not kept["unknown"]:
            return kept["train"] or 0, kept["validation"] or 0
    rows = Rollout.objects.filter(batch__source=job.public_id).values("batch__kind").annotate(n=Count("id"))
    counts = {row["batch__kind"]: row["n"] for row in rows.order_by()}
    return counts.get(RolloutBatch.Kind.TRAIN_STEP, 0), counts.get(RolloutBatch.Kind.VALIDATION, 0)


def has_checks(job: Job) -> bool:
    """Whether there is anything to check it on while it trains."""
    return Item.objects.filter(version=job.baseline.dataset_version_id, split=Split.VALIDATION).exists()


def step_pace(job: Job) -> float | None:
    """Mean seconds of the latest train steps."""
    recent = TrainStep.objects.filter(job=job).order_by("-number").values_list("metrics__seconds", flat=True)[:20]
    known = [value for value in recent if finite(value) is not None]
    return sum(known) / len(known) if known else None


def job_state(job: Job) -> JobState:
    """Computed for each look; no rollout is read, however many there are."""
    now = timezone.now()
    beat = job.heartbeat_at
    silent = beat if job.status in AT_WORK and beat and (now - beat).total_seconds() > SILENT_SECONDS else None
    pace = step_pace(job) if job.status == Status.RUNNING and job.total_steps else None
    left = pace * (job.total_steps - job.done_steps) if pace is not None else None
    train, validation = rollout_counts(job)
    return JobState(
        silent_since=silent,
        seconds_left=left,
        percent=round(100 * job.done_steps / job.total_steps) if job.total_steps else 0,
        cost=costs.job_cost(job),
        train_rollouts=train,
        validation_rollouts=validation,
    )
