"""A person's browser session at /api: for the docs page, and for what no key may do (members, keys, approvals, audit)."""

from typing import Any

from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request

from rftstudio.teams.selectors import actor_get

TEAM_HEADER = "X-Team"


class TeamSession(SessionAuthentication):
    """The logged-in person acting for the team that the header names; writes need the CSRF token like any page."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        slug = request.headers.get(TEAM_HEADER, "")
        found = super().authenticate(request) if slug else None
        return (found[0], actor_get(user=found[0], slug=slug)) if found else None
