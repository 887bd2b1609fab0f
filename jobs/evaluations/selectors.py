"""Reads about evaluations: rows for the metrics, progress, facts for the verdict."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, QuerySet
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from datasets.models import Item, Split
from graders.calibration import Pair, calibrate
from graders.selectors import rollout_labels
from graders.validation import grader_problems, variables_of
from jobs.evaluations import readiness
from jobs.evaluations.facts import Facts
from jobs.evaluations.metrics import RolloutRow, ToolUse, compute_metrics, item_figures
from jobs.evaluations.models import Evaluation
from jobs.rollouts.models import Rollout, RolloutBatch, Step
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team
from rftstudio.usage.selectors import budget_get

Status = Evaluation.Status
ACTIVE = (Status.QUEUED, Status.RUNNING)
#: Rows read when looking for fields that a grader names; more would only repeat the answer.
CHECKED_ROWS = 5000
_PARTS = ("dataset_version__dataset", "agent_version__agent", "grader_version__grader", "model", "batch", "team")


def evaluation_list(*, team: Team) -> QuerySet[Evaluation]:
    """Newest first."""
    return Evaluation.objects.filter(team=team).select_related(*_PARTS, "created_by").order_by("-id")


def evaluation_get(*, team: Team, public_id: str) -> Evaluation:
    found = evaluation_list(team=team).filter(public_id=public_id).first()
    if found is None:
        raise NotFound("There is no such evaluation.")
    return found


def evaluation_find(
    *,
    team: Team,
    dataset_version,
    agent_version,
    grader_version,
    model,
    split: str,
    samples_per_item: int,
    max_items: int | None,
    seed: int,
) -> Evaluation | None:
    """The newest evaluation of exactly this order that did not fail and was not cancelled."""
    return (
        evaluation_list(team=team)
        .filter(
            dataset_version=dataset_version,
            agent_version=agent_version,
            grader_version=grader_version,
            model=model,
            split=split,
            samples_per_item=samples_per_item,
            max_items=max_items,
            seed=seed,
            status__in=[*ACTIVE, Status.SUCCEEDED],
        )
        .first()
    )


def _tool_uses(batch: RolloutBatch) -> dict[int, list[ToolUse]]:
    uses: dict[int, list[ToolUse]] = {}
    calls = Step.objects.filter(rollout__batch=batch).exclude(tool_calls=[]).values_list("rollout_id", "tool_calls")
    for rollout_id, records in calls.iterator(chunk_size=2000):
        uses.setdefault(rollout_id, []).extend(
            ToolUse(
                name=str(record.get("name", "")),
                milliseconds=float(record.get("milliseconds") or 0.0),
                is_error=bool(record.get("is_error")),
            )
            for record in records
        )
    return uses


def batch_rows(batch: RolloutBatch, *, with_tools: bool = True) -> list[RolloutRow]:
    """The ended rollouts of a batch as the metrics see them; queued and cancelled ones say nothing."""
    uses = _tool_uses(batch) if with_tools else {}
    ended = Rollout.objects.filter(batch=batch, status__in=[Rollout.Status.DONE, Rollout.Status.FAILED])
    return [
        RolloutRow(
            group=row.group_key,
            reward=row.reward,
            passed=row.passed,
            status=row.status,
            stop_reason=row.stop_reason,
            error=row.error or str((row.grade or {}).get("details") or ""),
            steps=row.n_steps,
            tools=tuple(uses.get(row.pk, ())),
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            milliseconds=row.milliseconds,
            cost_usd=None if row.cost_usd is None else float(row.cost_usd),
            sub_rewards=row.sub_rewards or {},
            title=row.title,
        )
        for row in ended.order_by("id").iterator(chunk_size=2000)
    ]


def evaluation_metrics(evaluation: Evaluation) -> dict[str, Any]:
    """Stored once it ended; computed from what is there while it runs."""
    if evaluation.metrics:
        return evaluation.metrics
    return compute_metrics(batch_rows(evaluation.batch), pass_threshold=evaluation.pass_threshold)


def evaluation_items(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One line for each item, for the variance plot."""
    rows = batch_rows(evaluation.batch, with_tools=False)
    return [asdict(figures) for figures in item_figures(rows, pass_threshold=evaluation.pass_threshold)]


@dataclass(frozen=True)
class Progress:
    """How far an evaluation is. `minutes_left` None when nothing is known yet."""

    ended: int
    total: int
    failed: int
    running: int
    seconds_left: float | None
    stalled_since: Any = None


def evaluation_progress(evaluation: Evaluation) -> Progress:
    counts = dict(
        Rollout.objects.filter(batch=evaluation.batch).values_list("status").annotate(n=Count("id")).order_by()
    )
    ended = counts.get("done", 0) + counts.get("failed", 0)
    total, left = sum(counts.values()), None
    if ended and evaluation.started_at and evaluation.status in ACTIVE:
        spent = (timezone.now() - evaluation.started_at).total_seconds()
        left = spent / ended * (total - ended)
    return Progress(ended, total, counts.get("failed", 0), counts.get("running", 0), left)


def address(name: str, *args: Any, query: str = "") -> str:
    """The page's address, or nothing where this installation has no such page."""
    try:
        return reverse(name, args=args) + (f"?{query}" if query else "")
    except NoReverseMatch:
        return ""


def _has_path(data: Any, keys: tuple[str | int, ...]) -> bool:
    for key in keys:
        if isinstance(data, dict) and str(key) in data:
            data = data[str(key)]
        elif isinstance(data, list) and str(key).isdecimal() and int(key) < len(data):
            data = data[int(key)]
        else:
            return False
    return data is not None


def missing_fields(evaluation: Evaluation) -> tuple[dict[str, int], int, list[str]]:
    """Item fields that the grader names, with the number of rows that lack them; rows looked at; the fields they have."""
    wanted = {variable for _, variable in variables_of(evaluation.grader_version.config) if variable.root == "item"}
    if not wanted:
        return {}, 0, []
    splits = {Split.TRAIN, Split.VALIDATION, evaluation.split}
    items = Item.objects.filter(version=evaluation.dataset_version, split__in=splits).order_by("position")
    missing, checked, names = dict.fromkeys(sorted(wanted, key=str), 0), 0, set()
    for item in items[:CHECKED_ROWS].iterator(chunk_size=1000):
        data, checked = item.data, checked + 1
        names.update(data)
        for variable in missing:
            missing[variable] += not _has_path(data, variable.keys)
    return {str(variable): count for variable, count in missing.items() if count}, checked, sorted(names)


def leaked_items(evaluation: Evaluation) -> int:
    """Items of the validation and test splits whose content also stands in the train split."""
    items = Item.objects.filter(version=evaluation.dataset_version)
    train = items.filter(split=Split.TRAIN).values("digest")
    return items.exclude(split=Split.TRAIN).filter(digest__in=train).count()


def _urls(evaluation: Evaluation) -> dict[str, str]:
    team, source = evaluation.team.slug, f"source={evaluation.public_id}"
    agent, grader = evaluation.agent_version.agent, evaluation.grader_version.grader
    again = (
        f"dataset={evaluation.dataset_version.public_id}&agent={evaluation.agent_version.public_id}"
        f"&split={evaluation.split}&samples=4"
    )
    return {
        "agent": address("agents:agent-detail", team, agent.public_id),
        "models": address("agents:model-list", team),
        "tools": address("agents:tool-list", team),
        "grader": address("graders:grader-detail", team, grader.public_id),
        "dataset": address("datasets:version-detail", team, evaluation.dataset_version.public_id),
        "rollouts": address("rollouts:rollout-list", team, query=source),
        "failed": address("rollouts:rollout-list", team, query=f"{source}&error=1"),
        "again": address("evaluations:evaluation-new", team, query=again),
        "costs": address("usage:cost-list", team),
        "examples": address("jobs:job-new", team, query=f"baseline={evaluation.public_id}&method=supervised"),
    }


#: Fewer labelled rollouts than this say nothing about a grader.
LEAST_LABELS = 8


def label_agreement(evaluation: Evaluation) -> tuple[float | None, int]:
    """How often the rewards and people agree at the pass mark, and on how many rollouts; None on too few."""
    rows = Rollout.objects.filter(batch=evaluation.batch, reward__isnull=False).values_list("public_id", "reward")
    rewards = dict(rows)
    labels = rollout_labels(team=evaluation.team, rollouts=list(rewards))
    pairs = [Pair(key, rewards[key], label) for key, label in labels.items()]
    found = calibrate(pairs, pass_mark=evaluation.pass_threshold) if len(pairs) >= LEAST_LABELS else None
    return (found.agreement.value if found else None), len(pairs)


def readiness_facts(evaluation: Evaluation) -> Facts:
    """What the checks look at, read now."""
    counts = dict(
        Item.objects.filter(version=evaluation.dataset_version).values_list("split").annotate(n=Count("id")).order_by()
    )
    finished = Evaluation.objects.filter(
        team=evaluation.team,
        dataset_version__dataset=evaluation.dataset_version.dataset,
        status=Status.SUCCEEDED,
        agent_version__agent=evaluation.agent_version.agent,
    )
    problems = [
        f"{problem.message} ({problem.path})"
        for problem in grader_problems(evaluation.grader_version.config)
        if problem.level == "error"
    ]
    missing, checked, row_fields = ({}, 0, []) if problems else missing_fields(evaluation)
    metrics = evaluation_metrics(evaluation)
    tricks = metrics.get("gaming") or {}
    agreement, labelled = label_agreement(evaluation)
    return Facts(
        metrics=metrics,
        is_finished=evaluation.status not in ACTIVE,
        is_cancelled=evaluation.status == Status.CANCELLED,
        train_items=counts.get(Split.TRAIN, 0),
        validation_items=counts.get(Split.VALIDATION, 0),
        leaked_items=leaked_items(evaluation),
        missing_fields=missing,
        checked_rows=checked,
        row_fields=row_fields,
        grader_problems=problems,
        versions_measured=finished.values("agent_version").distinct().count(),
        other_graders=finished.exclude(grader_version__grader=evaluation.grader_version.grader).count(),
        is_trainable=evaluation.model.is_trainable,
        model_name=evaluation.model.name,
        label_agreement=agreement,
        labelled_rollouts=labelled,
        tricks_tried=tricks.get("tried"),
        tricks_passed=tricks.get("passed", []),
        budget_left_usd=None if (left := budget_get(team=evaluation.team).left) is None else float(left),
        urls=_urls(evaluation),
    )


def readiness_of(evaluation: Evaluation) -> dict[str, Any]:
    """The verdict, computed from what is true now."""
    return readiness.verdict(readiness.readiness_lines(readiness_facts(evaluation)))


#: A field is offered as a tag when it has this many different values.
TAG_VALUES = range(2, 13)
#: Tags of these names come first.
TAG_NAMES = ("tag", "tags", "kind", "topic", "category", "type", "difficulty")


def item_tags(evaluation: Evaluation) -> dict[str, dict[str, str]]:
    """Fields of the items that sort them into few kinds: field → item key → value. Likely names first."""
    items = Item.objects.filter(rollouts__batch=evaluation.batch).distinct().order_by("position")
    found: dict[str, dict[str, str]] = {}
    for item in items[:CHECKED_ROWS].iterator(chunk_size=1000):
        for name, value in item.data.items():
            if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                value = ", ".join(sorted(value))
            if isinstance(value, (str, bool, int)) and len(str(value)) <= 60:
                found.setdefault(name, {})[item.key] = str(value)
    kept = {
        name: values
        for name, values in found.items()
        if len(set(values.values())) in TAG_VALUES and len(set(values.values())) <= max(2, len(values) // 2)
    }
    return dict(sorted(kept.items(), key=lambda pair: (pair[0] not in TAG_NAMES, pair[0])))


def evaluations_regraded() -> QuerySet[Evaluation]:
    """Ended evaluations whose rollouts meanwhile have the rewards of another grader version."""
    rows = Evaluation.objects.exclude(status__in=ACTIVE).exclude(grader_version=F("batch__grader_version"))
    return rows.filter(batch__grader_version__isnull=False).select_related("batch__grader_version").order_by("id")


def evaluations_unsettled() -> QuerySet[Evaluation]:
    """Over all teams: what the sweep looks at."""
    return Evaluation.objects.filter(status__in=ACTIVE).select_related(*_PARTS).order_by("id")


def recent_rate(evaluation: Evaluation, *, minutes: int = 2) -> int:
    """Rollouts that ended in the last minutes; 0 for a while means it stalls."""
    since = timezone.now() - timedelta(minutes=minutes)
    return Rollout.objects.filter(batch=evaluation.batch, started_at__gte=since, status="done").count()


def is_active(evaluation: Evaluation) -> bool:
    return evaluation.status in ACTIVE


def is_checkpoint(evaluation: Evaluation) -> bool:
    """Another policy than the agent's own model: a checkpoint in its place."""
    return evaluation.model_id != evaluation.agent_version.model_id


def title_of(evaluation: Evaluation) -> str:
    return f"{'Checkpoint evaluation' if is_checkpoint(evaluation) else 'Baseline'} {evaluation.number}"


def list_line(evaluation: Evaluation) -> dict[str, Any]:
    metrics = evaluation.metrics or {}
    return {
        "evaluation": evaluation,
        "title": title_of(evaluation),
        "mean": metrics.get("mean_reward"),
        "pass_rate": metrics.get("pass_rate"),
        "pass_at_k": metrics.get("pass_at_k"),
        "learnable": metrics.get("learnable_share"),
        "rollouts": metrics.get("rollouts"),
        "verdict": (evaluation.readiness or {}).get("level", ""),
    }


def verdict_lines(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines as the component takes them; a remedy without a page is said in the evidence."""
    return [
        {
            **line,
            "state": {"block": "bad"}.get(line["level"], line["level"]),
            "wanted_words": f"want {line['wanted']}" if line["wanted"] else "",
            "remedies": [line["remedy"]] if line["remedy"] and line["remedy"]["url"] else [],
            "evidence_words": line["evidence"]
            + (f" {line['remedy']['label']}." if line["remedy"] and not line["remedy"]["url"] else ""),
        }
        for line in verdict["lines"]
    ]
