"""Jump to…: pages and things by name."""

from dataclasses import dataclass

from django.db.models import OuterRef, Q, Subquery

from datasets.models import Dataset, DatasetVersion
from graders.models import Grader
from jobs.agents.models import Agent, Tool
from jobs.evaluations.models import Evaluation
from jobs.home_links import address, job_name
from jobs.models import Job
from rftstudio.teams.models import Team

MOST_LINES = 5


@dataclass(frozen=True)
class Hit:
    icon: str
    name: str
    kind: str
    url: str


def jump_hits(*, team: Team, text: str) -> list[Hit]:
    """Pages and things whose name holds the text; the newest of each kind first."""
    text = text.strip()
    hits = [hit for hit in _pages(team) if text.lower() in hit.name.lower()]
    like = {"name__icontains": text} if text else {}
    sources = (
        (Dataset, "dataset", "dataset", "datasets:version-detail"), (Grader, "grader", "grader", "graders:grader-detail"),
        (Agent, "agent", "agent", "agents:agent-detail"), (Tool, "tool", "tool", "agents:tool-detail"),
    )  # fmt: skip
    for model, icon, kind, page in sources:
        rows = model.objects.filter(team=team, **like).order_by("-id")
        if model is Dataset:
            newest = DatasetVersion.objects.filter(dataset=OuterRef("pk")).order_by("-number").values("public_id")[:1]
            rows = rows.annotate(page_id=Subquery(newest))
        hits += [
            Hit(icon, row.name, kind, address(page, team.slug, getattr(row, "page_id", row.public_id) or "-"))
            for row in rows[:MOST_LINES]
        ]
    hits += _run_hits(team, text)
    return [hit for hit in hits if hit.url][:20]


def _pages(team: Team) -> list[Hit]:
    pages = (
        ("home", "Team home", "teams:home"), ("dataset", "Datasets", "datasets:dataset-list"),
        ("upload", "Upload items", "datasets:dataset-new"), ("grader", "Graders", "graders:grader-list"),
        ("agent", "Agents", "agents:agent-list"), ("plus", "New agent", "agents:agent-new"),
        ("tool", "Tools", "agents:tool-list"), ("server", "Models", "agents:model-list"),
        ("baseline", "Baselines", "evaluations:evaluation-list"), ("plus", "New baseline", "evaluations:evaluation-new"),
        ("job", "Jobs", "jobs:job-list"), ("rollout", "Rollouts", "rollouts:rollout-list"),
        ("members", "Members", "teams:member-list"), ("key", "API keys", "teams:key-list"),
    )  # fmt: skip
    return [Hit(icon, name, "page", address(page, team.slug)) for icon, name, page in pages]


def _run_hits(team: Team, text: str) -> list[Hit]:
    """Jobs and evaluations by number, id, name or agent."""
    number = Q(number=int(text)) if text.isdecimal() and len(text) < 9 else Q()
    by_id = Q(public_id__istartswith=text) if text else Q()
    jobs = Job.objects.filter(team=team).select_related("baseline__agent_version__agent").order_by("-id")
    runs = Evaluation.objects.filter(team=team).select_related("agent_version__agent").order_by("-id")
    if text:
        jobs = jobs.filter(
            number | by_id | Q(name__icontains=text) | Q(baseline__agent_version__agent__name__icontains=text)
        )
        runs = runs.filter(number | by_id | Q(agent_version__agent__name__icontains=text))
    hits = [
        Hit("job", job_name(job), f"job · {job.status}", address("jobs:job-detail", team.slug, job.public_id))
        for job in jobs[:MOST_LINES]
    ]
    return hits + [
        Hit(
            "baseline", f"Evaluation {run.number} of {run.agent_version.agent.name}", f"evaluation · {run.status}",
            address("evaluations:evaluation-detail", team.slug, run.public_id),
        )
        for run in runs[:MOST_LINES]
    ]  # fmt: skip
