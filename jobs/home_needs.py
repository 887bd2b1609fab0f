"""What only a person can settle, and what people did lately."""

from dataclasses import dataclass
from typing import Any

from jobs.home_links import address
from rftstudio.teams.models import AuditEvent, Team

MOST  #: Where the thing of an audit line is shown; the page's address takes its public id.
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
