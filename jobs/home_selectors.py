"""What the team's home shows first: the path of each agent, its five stations and the next action.

Read from the newest versions, evaluations and jobs; there is no table of its own. The number of queries does not grow.
"""

from dataclasses import dataclass
from typing import Any

from django.db.models import F, OuterRef, Subquery

from datasets.models import DatasetVersion
from graders.models import Grader, GraderVersion
from jobs.agents.models import Agent, AgentVersion
from jobs.evaluations.models import Evaluation
from jobs.home_links import Action, address
from jobs.home_running import EVALUATION_AT_WORK, JOB_AT_WORK, batch_counts, recent_rewards
from jobs.models import Job
from rftstudio.teams.models import Team

MOST_AGENTS = 8


@dataclass(frozen=True)
class Station:
    """One stop of an agent's path: glyph, state, one fact, where it leads."""

    glyph: str
    title: str
    fact: str = ""
    url: str = ""
    is_reached: bool = True


@dataclass(frozen=True)
class PathRow:
    name: str
    url: str
    note: str
    stations: list[Station]
    action: Action | None


@dataclass
class _World:
    """Everything the path looks at, read once."""

    versions: dict[int, AgentVersion]
    evaluations: dict[int, Evaluation]
    jobs: dict[int, Job]
    counts: dict[int, dict[str, int]]
    rewards: dict[int, list[float | None]]
    dataset: DatasetVersion | None
    grader: GraderVersion | None
    draft: Grader | None


def path_rows(*, team: Team) -> tuple[list[PathRow], int]:
    """One row per agent, last activity first, and how many agents are left out."""
    newest_version = AgentVersion.objects.filter(agent=OuterRef("pk")).order_by("-number")
    of_agent = Evaluation.objects.filter(agent_version__agent=OuterRef("pk")).order_by("-id")
    agents = list(
        Agent.objects.filter(team=team).annotate(
            version_id=Subquery(newest_version.values("pk")[:1]),
            # A checkpoint's evaluation is not a baseline: there the model is not the agent's own.
            evaluation_id=Subquery(of_agent.filter(model=F("agent_version__model")).values("pk")[:1]),
            job_id=Subquery(
                Job.objects.filter(baseline__agent_version__agent=OuterRef("pk")).order_by("-id").values("pk")[:1]
            ),
        )
    )
    world = _read_world(team, agents)
    agents.sort(key=lambda agent: _last_activity(agent, world), reverse=True)
    rows = [_path_row(team, agent, world) for agent in agents[:MOST_AGENTS]]
    return rows, max(0, len(agents) - MOST_AGENTS)


def _read_world(team: Team, agents: list[Agent]) -> _World:
    evaluations = Evaluation.objects.select_related(
        "dataset_version__dataset", "grader_version__grader", "agent_version", "batch"
    ).in_bulk([agent.evaluation_id for agent in agents if agent.evaluation_id])
    jobs = Job.objects.select_related("baseline").in_bulk([agent.job_id for agent in agents if agent.job_id])
    versions = AgentVersion.objects.select_related("model").in_bulk([a.version_id for a in agents if a.version_id])
    return _World(
        versions=versions,
        evaluations=evaluations,
        jobs=jobs,
        counts=batch_counts(one for one in evaluations.values() if one.status in EVALUATION_AT_WORK),
        rewards=recent_rewards(jobs.values()),
        dataset=DatasetVersion.objects.filter(team=team).select_related("dataset").order_by("-id").first(),
        grader=GraderVersion.objects.filter(team=team).select_related("grader").order_by("-id").first(),
        draft=Grader.objects.filter(team=team).order_by("-id").first(),
    )


def _last_activity(agent: Agent, world: _World) -> Any:
    moments = [agent.created_at]
    for rows, key in (
        (world.versions, agent.version_id), (world.evaluations, agent.evaluation_id), (world.jobs, agent.job_id)
    ):  # fmt: skip
        if key in rows:
            moments.append(rows[key].created_at)
    return max(moments)


def _path_row(team: Team, agent: Agent, world: _World) -> PathRow:
    evaluation = world.evaluations.get(agent.evaluation_id)
    version = world.versions.get(agent.version_id)
    job = world.jobs.get(agent.job_id)
    dataset = evaluation.dataset_version if evaluation else world.dataset
    grader = evaluation.grader_version if evaluation else world.grader
    stations = [
        _dataset_station(team, dataset),
        _grader_station(team, grader, world.draft),
        _agent_station(team, agent, version),
        _baseline_station(team, evaluation, world, ready=bool(dataset and grader and version)),
        _job_station(team, job, evaluation, world),
    ]
    return PathRow(
        name=agent.name,
        url=address("agents:agent-detail", team.slug, agent.public_id),
        note=version.model.name if version else "no version yet",
        stations=stations,
        action=_next_action(team, agent, dataset, grader, version, evaluation, job),
    )


def _dataset_station(team: Team, version: DatasetVersion | None) -> Station:
    if version is None:
        return Station("todo", "No items", "upload a file", address("datasets:dataset-new", team.slug), False)
    url = address("datasets:version-detail", team.slug, version.public_id)
    items = f"{version.item_count:,} items"
    if version.status == DatasetVersion.Status.FROZEN:
        return Station("done", f"Version {version.number}", f"{items}, frozen", url)
    glyph = {"importing": "running", "failed": "failed"}.get(version.status, "draft")
    title = {"importing": "Importing", "failed": "Import failed"}.get(
        version.status, f"Version {version.number}, draft"
    )
    return Station(glyph, title, items, url)


def _grader_station(team: Team, version: GraderVersion | None, draft: Grader | None) -> Station:
    if version is not None:
        url = address("graders:grader-detail", team.slug, version.grader.public_id)
        return Station("done", f"Version {version.number}", f"pass mark {version.pass_threshold:.2f}", url)
    if draft is not None:
        url = address("graders:grader-detail", team.slug, draft.public_id)
        return Station("draft", "Draft", "not published", url)
    return Station("todo", "No grader", "", address("graders:grader-new", team.slug), False)


def _agent_station(team: Team, agent: Agent, version: AgentVersion | None) -> Station:
    url = address("agents:agent-detail", team.slug, agent.public_id)
    if version is None:
        return Station("draft", "No version", "publish one", url)
    count = len(version.tools)
    return Station("done", f"Version {version.number}", f"{count} tool{'' if count == 1 else 's'}", url)


def _baseline_station(team: Team, evaluation: Evaluation | None, world: _World, *, ready: bool) -> Station:
    if evaluation is None:
        return Station("todo", "Not run", "" if ready else "waits for 1 to 3", _new_baseline(team), False)
    url = address("evaluations:evaluation-detail", team.slug, evaluation.public_id)
    if evaluation.status in EVALUATION_AT_WORK:
        counts = world.counts.get(evaluation.batch_id, {})
        fact = f"{counts.get('settled', 0):,} of {counts.get('all', 0):,} rollouts"
        return Station("running" if evaluation.status == "running" else "queued", "Running", fact, url)
    if evaluation.status != Evaluation.Status.SUCCEEDED:
        return Station(
            "failed" if evaluation.status == "failed" else "cancelled", evaluation.status.capitalize(), "", url
        )
    mean = evaluation.metrics.get("mean_reward")
    fact = "no reward" if mean is None else f"mean reward {mean:.2f}"
    level, warnings = evaluation.readiness.get("level"), evaluation.readiness.get("warnings", 0)
    if level == "block":
        return Station("failed", "Not ready", fact, url)
    if level == "warn":
        return Station("warning", f"Ready, {warnings} warning{'' if warnings == 1 else 's'}", fact, url)
    return Station("done", "Ready" if level == "ok" else "Finished", fact, url)


def _job_station(team: Team, job: Job | None, evaluation: Evaluation | None, world: _World) -> Station:
    if job is None:
        if evaluation and evaluation.readiness.get("level") == "block":
            return Station("todo", "Blocked", "by the baseline", "", False)
        return Station("todo", "Not started", "", "", False)
    url = address("jobs:job-detail", team.slug, job.public_id)
    rewards = [value for value in world.rewards.get(job.pk, []) if value is not None]
    fact = f"train reward {rewards[-1]:.2f}" if rewards else ""
    if job.status in ("running", "pausing", "cancelling"):
        return Station("running", f"Train step {job.done_steps} of {job.total_steps or '?'}", fact, url)
    titles = {
        "succeeded": ("done", f"Finished, {job.done_steps} train steps"), "failed": ("failed", "Failed"),
        "paused": ("paused", f"Paused at {job.done_steps}"), "cancelled": ("cancelled", "Cancelled"),
        "queued": ("queued", "Queued"), "validating_files": ("queued", "Checking files"),
    }  # fmt: skip
    return Station(*titles[job.status], fact, url)


def _new_baseline(team: Team) -> str:
    return address("evaluations:evaluation-new", team.slug)


def _next_action(
    team: Team,
    agent: Agent,
    dataset: DatasetVersion | None,
    grader: GraderVersion | None,
    version: AgentVersion | None,
    evaluation: Evaluation | None,
    job: Job | None,
) -> Action | None:
    """The one thing to do next; the first station that is not done decides."""
    baseline = address("evaluations:evaluation-detail", team.slug, evaluation.public_id) if evaluation else ""
    if job and job.status in JOB_AT_WORK:
        choice = ("Watch the job", address("jobs:job-detail", team.slug, job.public_id))
    elif job and (evaluation is None or job.baseline_id >= evaluation.pk):
        words = {
            "succeeded": "See the result",
            "failed": "See why",
            "paused": "Resume or end",
            "cancelled": "See the job",
        }
        choice = (words[job.status], address("jobs:job-detail", team.slug, job.public_id))
    elif dataset is None:
        choice = ("Upload items", address("datasets:dataset-new", team.slug))
    elif grader is None:
        choice = ("Make a grader", address("graders:grader-list", team.slug))
    elif version is None:
        choice = ("Publish a version", address("agents:agent-detail", team.slug, agent.public_id))
    elif dataset.status != DatasetVersion.Status.FROZEN and evaluation is None:
        choice = ("Check and freeze", address("datasets:version-detail", team.slug, dataset.public_id))
    elif evaluation is None or evaluation.status in ("failed", "cancelled"):
        choice = ("Run a baseline", _new_baseline(team))
    elif evaluation.status in EVALUATION_AT_WORK:
        choice = ("Watch it run", baseline)
    elif evaluation.readiness.get("level") == "block":
        choice = ("See what to fix", baseline)
    else:
        choice = (
            "Launch a job",
            address("jobs:job-new", team.slug, query=f"?baseline={evaluation.public_id}") or baseline,
        )
    return Action(*choice) if choice[1] else None
