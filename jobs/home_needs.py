"""What only a person can settle, and what people did lately."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, OuterRef, Q, Subquery
from django.utils import timezone

from datasets.models import Dataset, DatasetVersion
from jobs.evaluations.models import Evaluation
from jobs.home_links import Action, address, job_name
from jobs.models import Job
from rftstudio.teams.models import AuditEvent, Team

MOST_DEEDS = 8
SILENT = timedelta(minutes=5)


@dataclass(frozen=True)
class Need:
    """Something only a person can settle. Lower `urgency` comes first."""

    urgency: int
    glyph: str
    claim: str
    why: str
    action: Action


def needs(*, team: Team) -> list[Need]:
    """Most urgent first: what stopped, then what waits for a decision, then what is unfinished."""
    found = [*_job_needs(team), *_evaluation_needs(team), *_dataset_needs(team)]
    return sorted((need for need in found if need.action.url), key=lambda need: need.urgency)


def _job_needs(team: Team) -> Iterable[Need]:
    now = timezone.now()
    failed_lately = Q(status="failed", finished_at__gte=now - timedelta(days=3))
    jobs = Job.objects.filter(failed_lately | Q(status__in=("running", "pausing", "paused")), team=team)
    for job in jobs.select_related("baseline__agent_version__agent").order_by("-id")[:20]:
        url, name = address("jobs:job-detail", team.slug, job.public_id), job_name(job)
        if job.status == "failed":
            words = (job.error or {}).get("message") or job.status_note or "Its page has the error."
            yield Need(0, "failed", f"{name} stopped by an error", words, Action("See why", url))
        elif job.status == "paused":
            words = job.status_note or "It can go on from its last train step."
            yield Need(2, "paused", f"{name} is paused", words, Action("Resume or end", url))
        elif job.heartbeat_at and now - job.heartbeat_at > SILENT:
            minutes = int((now - job.heartbeat_at).total_seconds() // 60)
            words = f"No sign of life for {minutes} minutes; it is restarted if it died."
            yield Need(1, "warning", f"{name} is silent", words, Action("Open the job", url))


def _evaluation_needs(team: Team) -> Iterable[Need]:
    """Only the newest baseline of each agent: older ones are answered by it."""
    seen: set[int] = set()
    rows = (
        Evaluation.objects.filter(team=team, model=F("agent_version__model"))
        .select_related("agent_version__agent")
        .annotate(n_jobs=Count("jobs"))
        .order_by("-id")[:40]
    )
    for row in rows:
        agent = row.agent_version.agent
        if agent.pk in seen:
            continue
        seen.add(agent.pk)
        url = address("evaluations:evaluation-detail", team.slug, row.public_id)
        name = f"Baseline {row.number} of {agent.name}"
        if row.status == "failed":
            yield Need(1, "failed", f"{name} failed", row.error or "Its page has the error.", Action("See why", url))
        elif row.status == "succeeded" and not row.n_jobs:
            yield _verdict_need(team, row, name, url)


def _verdict_need(team: Team, row: Evaluation, name: str, url: str) -> Need:
    if row.readiness.get("level") == "block":
        blocks = [line for line in row.readiness.get("lines", []) if line.get("level") == "block"]
        why = f"{blocks[0]['name']}: {blocks[0]['evidence']}" if blocks else "Its page lists why."
        return Need(3, "failed", f"{name} is not ready", why, Action("See what to fix", url))
    launch = address("jobs:job-new", team.slug, query=f"?baseline={row.public_id}")
    action = Action("Launch a job", launch) if launch else Action("Read it", url)
    why = row.readiness.get("text") or "Read it, then launch a job or improve the agent."
    return Need(5, "half", f"{name} is finished", why, action)


def _dataset_needs(team: Team) -> Iterable[Need]:
    newest = DatasetVersion.objects.filter(dataset=OuterRef("pk")).order_by("-number").values("pk")[:1]
    ids = Dataset.objects.filter(team=team).annotate(newest=Subquery(newest)).order_by("-id")
    rows = DatasetVersion.objects.filter(pk__in=list(ids.values_list("newest", flat=True)[:20]))
    for row in rows.filter(status__in=("draft", "failed")).select_related("dataset").order_by("-id"):
        url = address("datasets:version-detail", team.slug, row.public_id)
        if row.status == "failed":
            why = str(row.report.get("error") or "No line of the file could be read.")
            yield Need(2, "failed", f"{row.dataset.name}: the import failed", why, Action("See the lines", url))
        else:
            claim = f"{row.dataset.name}, version {row.number} is a draft"
            why = f"{row.item_count:,} items. Runs may point at it once it is frozen."
            yield Need(6, "draft", claim, why, Action("Check and freeze", url))


#: Where the thing of an audit line is shown; the page's address takes its public id.
_PAGES = {
    "datasetversion": "datasets:version-detail",
    "grader": "graders:grader-detail",
    "agent": "agents:agent-detail",
    "tool": "agents:tool-detail",
    "evaluation": "evaluations:evaluation-detail",
    "job": "jobs:job-detail",
}


@dataclass(frozen=True)
class Deed:
    who: str
    what: str
    at: Any
    url: str = ""


def story(*, team: Team) -> list[Deed]:
    """The latest deeds of people and keys, newest first."""
    events = AuditEvent.objects.filter(team=team).select_related("user", "api_key").order_by("-id")[:MOST_DEEDS]
    return [Deed(_who(event), _deed(event), event.created_at, _deed_url(team, event)) for event in events]


def _who(event: AuditEvent) -> str:
    if event.user:
        return str(event.user)
    return f"Key {event.api_key.name}" if event.api_key else "Studio"


def _deed(event: AuditEvent) -> str:
    """`job.launched` → "launched a job"; with the thing's name or number where the line holds one."""
    thing, _, verb = event.verb.partition(".")
    noun = thing.replace("_", " ")
    if noun.startswith("api "):
        noun = "API " + noun[4:]
    verb = verb.replace("_", " ")
    article = "an" if noun[0] in "aeiouA" else "a"
    words = f"{verb} {article} {noun}" if " " not in verb else f"{noun}: {verb}"
    data = event.data if isinstance(event.data, dict) else {}
    name = data.get("name") or data.get("number")
    return f"{words}: {name}" if name else words


def _deed_url(team: Team, event: AuditEvent) -> str:
    page = _PAGES.get(event.object_type)
    return address(page, team.slug, event.object_id) if page and event.object_id else ""
