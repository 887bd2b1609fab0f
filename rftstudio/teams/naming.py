"""How commands name a team's things: by slug or public id, a line standing for its newest version."""

from typing import Any

from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team


def team_named(slug: str) -> Team:
    """The team with that slug; NotFound says which was asked for."""
    team = Team.objects.filter(slug=slug).first()
    if team is None:
        raise NotFound(f"There is no team with the slug {slug}.")
    return team


def newest_version(model: Any, team: Team, line: str, name: str, **more: Any) -> Any:
    """The version of that public id, or the newest one of the line (`agent`, `grader`, `dataset`) with that slug or id."""
    rows = model.objects.filter(team=team, **more).select_related(line).order_by("-number")
    found = (
        rows.filter(public_id=name).first()
        or rows.filter(**{f"{line}__public_id": name}).first()
        or rows.filter(**{f"{line}__slug": name}).first()
    )
    if found is None:
        state = "frozen" if more else "published"
        raise NotFound(f"There is no {line} {name} with a {state} version in this team.")
    return found
