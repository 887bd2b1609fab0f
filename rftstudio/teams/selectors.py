"""Reads about teams and who may act in them."""

from rftstudio.core.errors import NotFound
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import ApiKey, Membership, Team, User


def actor_get(*, user: User, slug: str) -> Actor:
    """The user acting in that team; NotFound for strangers and for teams that do not exist alike."""
    membership = Membership.objects.select_related("team").filter(user=user, team__slug=slug).first()
    if membership is None:
        raise NotFound("There is nothing at this address.")
    return Actor(team=membership.team, role=membership.role, user=user)


def team_list(*, user: User) -> list[Team]:
    return list(Team.objects.filter(memberships__user=user).order_by("name"))


def home_team_get(*, user: User) -> Team | None:
    """Where a person lands after logging in: the team they joined last."""
    membership = Membership.objects.select_related("team").filter(user=user).order_by("-id").first()
    return membership.team if membership else None


def member_list(*, team: Team) -> list[Membership]:
    return list(Membership.objects.filter(team=team).select_related("user").order_by("user__email"))


def api_key_list(*, team: Team) -> list[ApiKey]:
    """Usable keys first, then the revoked ones; newest first in each."""
    keys = list(ApiKey.objects.filter(team=team).select_related("created_by").order_by("-id"))
    return sorted(keys, key=lambda key: not key.is_usable)


def api_key_get(*, team: Team, public_id: str) -> ApiKey:
    key = ApiKey.objects.filter(team=team, public_id=public_id).first()
    if key is None:
        raise NotFound("There is nothing at this address.")
    return key
