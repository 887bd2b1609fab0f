"""Writes about teams, members, keys; and the audit line every other service writes.

People and sessions have modules of their own; their doors stand here too, because other rooms call services.
"""

from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.log import audit
from rftstudio.teams.models import ApiKey, Membership, Role, Team, User, hash_key
from rftstudio.teams.people import (
    account_join,
    account_note,
    invitation_accept,
    invitation_find,
    invitation_revoke,
    invitation_send,
    member_invite,
    member_remove,
    member_role_set,
    second_factor_remove,
    service_account_create,
)
from rftstudio.teams.permissions import KEY_RIGHTS, Permission, check_can, is_within
from rftstudio.teams.sessions import session_end, session_note, sessions_end_others

__all__ = [
    "account_join",
    "account_note",
    "account_switch",
    "api_key_create",
    "api_key_revoke",
    "audit",
    "invitation_accept",
    "invitation_find",
    "invitation_revoke",
    "invitation_send",
    "member_invite",
    "member_remove",
    "member_role_set",
    "second_factor_remove",
    "service_account_create",
    "session_end",
    "session_note",
    "sessions_end_others",
    "staff_actor",
    "team_create",
    "team_rename",
    "theme_set",
]


def staff_actor(team: Team, user: User) -> Actor:
    """An administrator of this installation acting for a team from the console, under their own name."""
    if not user.is_superuser:
        raise NotAllowed("Only an administrator of this installation may do this.")
    return Actor(team=team, user=user, is_system=True)


@transaction.atomic
def account_switch(*, by: User, user: User, is_active: bool) -> User:
    """Close an account, which ends its sessions at its next request, or open it again. Nothing of it is deleted."""
    if not by.is_superuser:
        raise NotAllowed("Only an administrator of this installation opens and closes accounts.")
    if user == by and not is_active:
        raise Conflict("You would lock yourself out.", fix="Ask another administrator.")
    if user.is_active != is_active:
        user.is_active = is_active
        user.save(update_fields=["is_active"])
        for team in Team.objects.filter(memberships__user=user):
            audit(staff_actor(team, by), "account.opened" if is_active else "account.closed", user)
    return user


@transaction.atomic
def team_create(*, name: str, owner: User, time_zone: str = "UTC") -> Team:
    """Make a team with its first owner."""
    slug = slugify(name)[:50] or "team"
    if Team.objects.filter(slug=slug).exists():
        raise Conflict(f"A team named {name} exists already.", where="name", fix="Choose another name.")
    team = Team.objects.create(name=name, slug=slug, time_zone=time_zone)
    Membership.objects.create(team=team, user=owner, role=Role.OWNER)
    audit(Actor(team=team, role=Role.OWNER, user=owner), "team.created", team)
    return team


@transaction.atomic
def team_rename(*, by: User, team: Team, name: str) -> Team:
    """Another name for people; the address stays, because links and scripts hold it."""
    if not by.is_superuser:
        raise NotAllowed("Only an administrator of this installation renames teams.")
    if not name.strip():
        raise UserError("A team needs a name.", where="name", fix="Write one.")
    before, team.name = Team.objects.get(pk=team.pk).name, name.strip()[:80]
    team.save(update_fields=["name", "updated_at"])
    audit(staff_actor(team, by), "team.renamed", team, name=[before, team.name])
    return team


@transaction.atomic
def api_key_create(
    *,
    actor: Actor,
    name: str,
    role: str = Role.ENGINEER,
    scopes: list[str] | None = None,
    expires_at: datetime | None = None,
    budget_usd: Decimal | None = None,
    acts_as: User | None = None,
) -> tuple[ApiKey, str]:
    """Make a key and return it with its secret, which is not stored and cannot be shown again.

    `scopes` narrow it to some rights of its role; `budget_usd` is what it may spend in a month; `acts_as` is a service
    account of the team, in whose name it then spends.
    """
    check_can(actor, Permission.KEY_MANAGE, team=actor.team)
    _check_key(actor.team, role, scopes or [], expires_at, budget_usd, acts_as)
    secret = ApiKey.new_secret()
    key = ApiKey.objects.create(
        team=actor.team, name=name, role=role, hint=secret[-4:], digest=hash_key(secret), created_by=actor.user,
        scopes=sorted(scopes or []), expires_at=expires_at, budget_usd=budget_usd, acts_as=acts_as,
    )  # fmt: skip
    audit(
        actor, "api_key.created", key, name=name, role=role, scopes=key.scopes,
        expires_at=expires_at.isoformat() if expires_at else None,
        budget_usd=None if budget_usd is None else str(budget_usd),
    )  # fmt: skip
    return key, secret


def _check_key(team: Team, role: str, scopes: list[str], expires_at, budget_usd, acts_as: User | None) -> None:
    if role not in Role.values:
        raise UserError(f"There is no role {role!r}.", where="role", fix=f"Choose one of {', '.join(Role.values)}.")
    if unknown := sorted(set(scopes) - set(KEY_RIGHTS)):
        raise UserError(f"A key cannot have the right {unknown[0]!r}.", where="scopes", fix="Choose from the list.")
    if expires_at is not None and expires_at <= timezone.now():
        raise UserError("The key would have expired already.", where="expires_at", fix="Choose a later day.")
    if budget_usd is not None and not (budget_usd.is_finite() and 0 < budget_usd < Decimal("1e10")):
        raise UserError("A budget is a positive amount.", where="budget_usd", fix="Write dollars as 12 or 12.50.")
    if acts_as is None:
        return
    account = Membership.objects.filter(team=team, user=acts_as, user__is_service=True).first()
    if account is None:
        raise NotFound("There is no such service account.")
    if not is_within(role, account.role):
        raise UserError(
            f"{acts_as} is {account.role}; its key cannot be {role}.",
            where="role",
            fix=f"Choose {account.role} or less.",
        )


@transaction.atomic
def api_key_revoke(*, actor: Actor, key: ApiKey) -> ApiKey:
    """End a key at once. Doing it twice keeps the first moment."""
    check_can(actor, Permission.KEY_MANAGE, team=key.team)
    if key.revoked_at is None:
        key.revoked_at = timezone.now()
        key.save(update_fields=["revoked_at"])
        audit(actor, "api_key.revoked", key, name=key.name)
    return key


def theme_set(*, user: User, theme: str) -> None:
    """light, dark, or empty to follow the system."""
    if theme not in ("", "light", "dark"):
        raise UserError("There is no such theme.", where="theme", fix="Choose light, dark, or as the system.")
    user.theme = theme
    user.save(update_fields=["theme"])
