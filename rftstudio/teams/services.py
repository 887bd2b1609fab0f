"""Writes about teams, members, keys; and the audit line every other service writes."""

from typing import Any

from django.db import models, transaction
from django.utils import timezone
from django.utils.text import slugify

from rftstudio.core.errors import Conflict, NotAllowed, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import ApiKey, AuditEvent, Membership, Role, Team, User, hash_key
from rftstudio.teams.permissions import Permission, check_can


def audit(actor: Actor, verb: str, obj: models.Model | None = None, **data: Any) -> AuditEvent:
    """Note one write. `data` must hold no secrets."""
    return AuditEvent.objects.create(
        team=actor.team,
        user=actor.user,
        api_key=actor.api_key,
        verb=verb,
        object_type=obj._meta.model_name if obj else "",
        object_id=str(getattr(obj, "public_id", obj.pk)) if obj else "",
        data=data,
    )


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
def api_key_create(*, actor: Actor, name: str, role: str = Role.ENGINEER) -> tuple[ApiKey, str]:
    """Make a key and return it with its secret, which is not stored and cannot be shown again."""
    check_can(actor, Permission.KEY_MANAGE, team=actor.team)
    secret = ApiKey.new_secret()
    key = ApiKey.objects.create(
        team=actor.team, name=name, role=role, hint=secret[-4:], digest=hash_key(secret), created_by=actor.user
    )
    audit(actor, "api_key.created", key, name=name, role=role)
    return key, secret


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
