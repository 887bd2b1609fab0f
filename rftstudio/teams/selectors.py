"""Reads about teams, who may act in them, and what they did."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta

from allauth.mfa.models import Authenticator
from django.db.models import Q, QuerySet
from django.utils import timezone

from rftstudio.core.errors import NotFound
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import ApiKey, AuditEvent, Invitation, Membership, Team, User


def actor_get(*, user: User, slug: str) -> Actor:
    """The user acting in that team; NotFound for strangers and for teams that do not exist alike."""
    membership = Membership.objects.select_related("team").filter(user=user, team__slug=slug).first()
    if membership is None:
        raise NotFound("There is nothing at this address.")
    return Actor(team=membership.team, role=membership.role, user=user)


def membership_get(*, team: Team, member_id: int) -> Membership:
    found = Membership.objects.filter(team=team, pk=member_id).select_related("user", "team").first()
    if found is None:
        raise NotFound("There is nothing at this address.")
    return found


def service_account_list(*, team: Team) -> list[User]:
    return list(User.objects.filter(memberships__team=team, is_service=True).order_by("first_name"))


def invitation_list(*, team: Team) -> list[Invitation]:
    """Those that still wait, newest first."""
    rows = Invitation.objects.filter(team=team, accepted_at=None, revoked_at=None, expires_at__gt=timezone.now())
    return list(rows.select_related("invited_by").order_by("-id"))


def invitation_get(*, team: Team, public_id: str) -> Invitation:
    found = Invitation.objects.filter(team=team, public_id=public_id).select_related("team").first()
    if found is None:
        raise NotFound("There is nothing at this address.")
    return found


AUDIT_FILTERS = ("verb", "who", "object", "from", "to")


def audit_list(*, team: Team, query: Mapping[str, str]) -> QuerySet[AuditEvent]:
    """Who did what, newest first. Page it by `before=<id>`."""
    rows = AuditEvent.objects.filter(team=team).select_related("team", "user", "api_key")
    if verb := query.get("verb"):
        rows = rows.filter(verb__startswith=verb)
    if who := query.get("who"):
        rows = rows.filter(Q(user__email__icontains=who) | Q(api_key__name__icontains=who))
    if thing := query.get("object"):
        rows = rows.filter(object_id=thing)
    # Days of the team's calendar, the last one included.
    if (day := _day(query.get("from", ""))) is not None:
        rows = rows.filter(created_at__gte=datetime.combine(day, time.min, tzinfo=team.zone))
    if (day := _day(query.get("to", ""))) is not None:
        rows = rows.filter(created_at__lt=datetime.combine(day + timedelta(days=1), time.min, tzinfo=team.zone))
    return rows.order_by("-id")


def _day(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if 2000 <= found.year <= 2200 else None


def team_list(*, user: User) -> list[Team]:
    return list(Team.objects.filter(memberships__user=user).order_by("name"))


def home_team_get(*, user: User) -> Team | None:
    """Where a person lands after logging in: the team they joined last."""
    membership = Membership.objects.select_related("team").filter(user=user).order_by("-id").first()
    return membership.team if membership else None


def second_factor_ids(*, team: Team) -> set[int]:
    """Members who log in with a second factor."""
    rows = Authenticator.objects.filter(type=Authenticator.Type.TOTP, user__memberships__team=team)
    return set(rows.values_list("user_id", flat=True))


def member_list(*, team: Team) -> list[Membership]:
    return list(Membership.objects.filter(team=team).select_related("user").order_by("user__email"))


def api_key_list(*, team: Team) -> list[ApiKey]:
    """Usable keys first, then the revoked ones; newest first in each."""
    keys = list(ApiKey.objects.filter(team=team).select_related("created_by", "acts_as").order_by("-id"))
    return sorted(keys, key=lambda key: not key.is_usable)


def api_key_get(*, team: Team, public_id: str) -> ApiKey:
    key = ApiKey.objects.filter(team=team, public_id=public_id).first()
    if key is None:
        raise NotFound("There is nothing at this address.")
    return key
