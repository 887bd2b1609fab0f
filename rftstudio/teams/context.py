"""What base.html shows about the team: rail, trail, money left."""

from django.http import HttpRequest


def team_context(request: HttpRequest) -> dict:
    actor = getattr(request, "actor", None)
    if actor is None:
        return {}
    return {"actor": actor, "team": actor.team}
