"""Reads about teams and who may act in them."""

from rftstudio.core.errors import NotFound
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Membership, Team, User


def actor_get(*, user: User, slug: str) -> Actor:
    """The user acting in that team; NotFound for strangers and for teams that do not exist alike."""
    membership = Membership.objects.select_related("team").filter(user=user, team__slug=slug).first()
    if membership is None:
        raise NotFound("There is nothing at this address.")
    return Actor(team=membership.team, role=membership.role, user=user)


def team_list(*, user: User) -> list[Team]:
    return list(Team.objects.filter(memberships__user=user).order_by("name"))
