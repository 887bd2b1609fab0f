"""What base.html shows about the team: rail, trail, the person's other teams. One query."""

from django.http import HttpRequest

from rftstudio.teams import selectors
from rftstudio.teams.permissions import Permission, can

_TEAM_PAGES = {"home": "home", "key-list": "keys", "key-new": "keys", "member-list": "members", "audit-list": "members"}


def team_context(request: HttpRequest) -> dict:
    actor = getattr(request, "actor", None)
    if actor is None:
        return {}
    # A fragment has no rail, so it need not ask which teams to offer.
    teams = selectors.team_list(user=request.user) if not getattr(request, "htmx", False) else []
    return {
        "actor": actor,
        "team": actor.team,
        "teams": teams,
        "place": _place(request),
        "sees_money": can(actor, Permission.COST_VIEW),
    }


def _place(request: HttpRequest) -> str:
    """Which entry of the rail is the present one."""
    match = request.resolver_match
    if match is None:
        return ""
    return _TEAM_PAGES.get(match.url_name, "") if match.namespace == "teams" else match.namespace
