"""Who belongs to a team: invitations by link, roles, service accounts. A team always keeps an owner."""

import hashlib
import secrets
from datetime import timedelta
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.text import slugify

from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.core.ids import new_id
from rftstudio.teams.actor import Actor
from rftstudio.teams.log import audit
from rftstudio.teams.models import Invitation, Membership, Role, Team, User
from rftstudio.teams.permissions import Permission, check_can, is_within

DAYS = 7
#: The part of a service account's address that no mail server has.
NO_MAIL = "service.invalid"


def token_digest(token: str) -> str:
    """Tokens have 190 bits of their own, so one SHA-256 is as strong as a slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


@transaction.atomic
def member_invite(*, actor: Actor, email: str, role: str) -> tuple[Invitation, str]:
    """Invite an address; returns the invitation with its token, which is not stored. An earlier one for it ends."""
    check_can(actor, Permission.TEAM_MANAGE, team=actor.team)
    _check_role(role)
    address = email.strip().lower()
    try:
        validate_email(address)
    except Exception as exc:
        raise UserError(f"{email!r} is no e-mail address.", where="email", fix="Write it as name@example.com.") from exc
    if Membership.objects.filter(team=actor.team, user__email=address).exists():
        raise Conflict(f"{address} is a member already.", where="email", fix="Change their role in the list.")
    now = timezone.now()
    earlier = Invitation.objects.filter(team=actor.team, email=address, accepted_at=None, revoked_at=None)
    earlier.update(revoked_at=now)
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        team=actor.team, email=address, role=role, digest=token_digest(token), invited_by=actor.user,
        expires_at=now + timedelta(days=DAYS),
    )  # fmt: skip
    audit(actor, "member.invited", invitation, email=address, role=role)
    return invitation, token


def invitation_send(*, invitation: Invitation, link: str) -> bool:
    """Mail the link. False where no mail server is set up: then whoever invited hands the link over."""
    if not settings.EMAIL_HOST:
        return False
    who = invitation.invited_by or "An owner"
    text = (
        f"{who} invites you to the team {invitation.team} in RFT Studio.\n\n{link}\n\n"
        f"The link works once, until {invitation.expires_at:%d %B %Y, %H:%M} UTC. Nobody else can use it for you."
    )
    return bool(send_mail(f"Join {invitation.team} in RFT Studio", text, None, [invitation.email], fail_silently=True))


def invitation_find(*, token: str) -> Invitation:
    """The open invitation of a link; NotFound for one that was used, ended, replaced or never made."""
    found = Invitation.objects.select_related("team", "invited_by").filter(digest=token_digest(token)).first()
    if found is None or not found.is_open:
        raise NotFound("This invitation has been used or has ended. Ask for a new one.")
    return found


@transaction.atomic
def invitation_accept(*, token: str, user: User) -> Membership:
    """Join. Only the person with the invited address can, and only once."""
    invitation = Invitation.objects.select_for_update().get(pk=invitation_find(token=token).pk)
    if not invitation.is_open:
        raise NotFound("This invitation has been used or has ended. Ask for a new one.")
    if user.email != invitation.email:
        raise Conflict(
            f"This invitation is for {invitation.email}, and you are logged in as {user.email}.",
            fix=f"Log out, then open the link again and log in as {invitation.email}.",
        )
    return _join(invitation, user)


@transaction.atomic
def account_join(*, token: str, name: str, password: str) -> Membership:
    """Make the account that an invitation is for, and join. The password was checked by the form."""
    invitation = invitation_find(token=token)
    if User.objects.filter(email=invitation.email).exists():
        raise Conflict(f"{invitation.email} has an account.", fix="Log in, then open the link again.")
    first, _, last = name.strip().partition(" ")
    user = User.objects.create_user(invitation.email, password, first_name=first[:150], last_name=last.strip()[:150])
    return invitation_accept(token=token, user=user)


def invitations_open(*, email: str) -> QuerySet[Invitation]:
    """What waits for that address, in whatever team."""
    return Invitation.objects.filter(email=email, accepted_at=None, revoked_at=None, expires_at__gt=timezone.now())


@transaction.atomic
def invitations_join(*, user: User) -> list[Membership]:
    """Join every team that invited this person's address, which somebody trusted has verified: as good as the links."""
    joined = []
    for invitation in invitations_open(email=user.email).select_for_update().select_related("team").order_by("id"):
        joined.append(_join(invitation, user))
    return joined


def _join(invitation: Invitation, user: User) -> Membership:
    membership, _ = Membership.objects.get_or_create(
        team=invitation.team, user=user, defaults={"role": invitation.role}
    )
    invitation.accepted_at = timezone.now()
    invitation.save(update_fields=["accepted_at", "updated_at"])
    actor = Actor(team=invitation.team, role=membership.role, user=user)
    audit(actor, "member.joined", membership, role=membership.role)
    return membership


def account_note(user: User, verb: str, *, by: User | None = None, **data: Any) -> None:
    """Note a change of somebody's account in the audit log of each of their teams."""
    for membership in Membership.objects.filter(user=user).select_related("team"):
        audit(Actor(team=membership.team, role=membership.role, user=by or user), verb, user, **data)


@transaction.atomic
def second_factor_remove(*, by: User, user: User) -> None:
    """For a person who lost phone and recovery codes: their password alone logs them in until they set it up again."""
    if not by.is_superuser:
        raise NotAllowed("Only an administrator of this installation takes a second factor off.")
    if by == user:
        raise Conflict("Your own is turned off on your own page, with your password.")
    removed, _ = Authenticator.objects.filter(user=user).delete()
    if not removed:
        raise Conflict("There is no second factor to take off.")
    account_note(user, "second_factor.taken_off", by=by)


@transaction.atomic
def invitation_revoke(*, actor: Actor, invitation: Invitation) -> Invitation:
    check_can(actor, Permission.TEAM_MANAGE, team=invitation.team)
    if not invitation.is_open:
        raise Conflict("The invitation was used or has ended already.")
    invitation.revoked_at = timezone.now()
    invitation.save(update_fields=["revoked_at", "updated_at"])
    audit(actor, "invitation.revoked", invitation, email=invitation.email)
    return invitation


# -- members ----------------------------------------------------------------------------------------------------------


def _check_role(role: str) -> None:
    if role not in Role.values:
        raise UserError(f"There is no role {role!r}.", where="role", fix=f"Choose one of {', '.join(Role.values)}.")


def _held(actor: Actor, membership: Membership) -> Membership:
    """The row as it is now, with the team's row held so that two owners cannot remove each other at once."""
    check_can(actor, Permission.TEAM_MANAGE, team=membership.team)
    Team.objects.select_for_update(no_key=True).only("pk").get(pk=membership.team_id)
    found = Membership.objects.select_related("user", "team").filter(pk=membership.pk).first()
    if found is None:
        raise NotFound("There is no such member.")
    return found


def _check_owner_stays(membership: Membership) -> None:
    others = Membership.objects.filter(team=membership.team, role=Role.OWNER, user__is_active=True)
    if membership.role == Role.OWNER and not others.exclude(pk=membership.pk).exists():
        raise Conflict(
            f"{membership.user} is the last owner of {membership.team}.",
            where="role",
            fix="Make somebody else owner first.",
        )


@transaction.atomic
def member_role_set(*, actor: Actor, membership: Membership, role: str) -> Membership:
    """Give a member another role."""
    membership = _held(actor, membership)
    _check_role(role)
    if role == membership.role:
        return membership
    if role != Role.OWNER:
        _check_owner_stays(membership)
    before, membership.role = membership.role, role
    membership.save(update_fields=["role", "updated_at"])
    if membership.user.is_service:  # its keys never have more rights than it
        for key in membership.team.api_keys.filter(acts_as=membership.user, revoked_at=None):
            if not is_within(key.role, role):
                key.role = role
                key.save(update_fields=["role", "updated_at"])
    audit(actor, "member.role_set", membership, user=membership.user.email, role=[before, role])
    return membership


@transaction.atomic
def member_remove(*, actor: Actor, membership: Membership) -> int:
    """Take a member out of the team; returns how many keys that they made still work, because scripts rest on those.

    What they made and spent stays; keys of a service account end with it.
    """
    membership = _held(actor, membership)
    _check_owner_stays(membership)
    user = membership.user
    audit(actor, "member.removed", membership, user=user.email, role=membership.role)
    if user.is_service:
        membership.team.api_keys.filter(acts_as=user, revoked_at=None).update(revoked_at=timezone.now())
    membership.delete()
    keys = membership.team.api_keys.filter(created_by=user, revoked_at=None).select_related("acts_as")
    return sum(key.is_usable for key in keys)


@transaction.atomic
def service_account_create(*, actor: Actor, name: str, role: str) -> Membership:
    """A member that is no person: it owns keys, spends under its own name and cannot log in."""
    check_can(actor, Permission.TEAM_MANAGE, team=actor.team)
    _check_role(role)
    if role == Role.OWNER:
        raise UserError("A service account cannot be an owner.", where="role", fix="Choose another role.")
    if not name.strip():
        raise UserError("A service account needs a name.", where="name", fix="Say what it does: nightly import.")
    address = f"{slugify(name)[:40] or 'service'}.{new_id('').lower()[:8]}@{NO_MAIL}"
    user = User.objects.create_user(address, None, first_name=name.strip()[:150], is_service=True)
    membership = Membership.objects.create(team=actor.team, user=user, role=role)
    audit(actor, "service_account.created", membership, name=name.strip(), role=role)
    return membership
