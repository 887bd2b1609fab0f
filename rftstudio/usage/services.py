"""Writes of money: use it, hold it, settle it, correct it; and the settings around it: prices, quotas, stop switches.

The ledger and the reservations have modules of their own; their doors stand here too, because other rooms call services.
"""

from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import available_timezones

from django.db import transaction
from django.utils import timezone

from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import ApiKey, Membership, Team, User
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit, staff_actor
from rftstudio.usage import scopes
from rftstudio.usage.closing import check_not_closed, month_close, month_reopen
from rftstudio.usage.ledger import (
    Usage,
    lines_price,
    lines_price_everywhere,
    sums_count_again,
    team_lock,
    usage_correct,
    usage_record,
    usage_record_many,
)
from rftstudio.usage.limits import check_may_spend, check_open, check_storage
from rftstudio.usage.models import Price, Quota, StopSwitch, Unit
from rftstudio.usage.notices import notice_once, notices_look
from rftstudio.usage.prices import MEASURES, unit_price
from rftstudio.usage.reservations import (
    approval_approve,
    approval_concern,
    approval_decline,
    approval_done,
    reservation_ask,
    reservation_hold,
    reservation_outlook,
    reservation_settle,
)

__all__ = [
    "Usage",
    "approval_approve",
    "approval_concern",
    "approval_decline",
    "approval_done",
    "check_limit",
    "check_may_spend",
    "check_open",
    "check_storage",
    "lines_price",
    "lines_price_everywhere",
    "month_close",
    "month_reopen",
    "notice_once",
    "notices_look",
    "price_set",
    "quota_set",
    "reservation_ask",
    "reservation_hold",
    "reservation_outlook",
    "reservation_settle",
    "staff_actor",
    "stop_set",
    "sums_count_again",
    "time_zone_set",
    "usage_correct",
    "usage_record",
    "usage_record_many",
]

MONEY_LIMITS = ("usd_month", "usd_job", "approval_above_usd", "storage_gb")
COUNT_LIMITS = ("jobs_at_once", "rollouts_day")
_MOST = Decimal("1e9")


@transaction.atomic
def price_set(
    *, user: User, unit: str, subject: str, usd: Decimal, valid_from: datetime | None = None, note: str = ""
) -> Price:
    """Add a price for everyone. `usd` is for what is sold: a million tokens, an hour. Earlier prices stay as they were."""
    if not user.is_superuser:
        raise NotAllowed("Only an administrator of this installation sets prices.")
    if unit not in MEASURES:
        raise UserError(f"{unit!r} is not sold here.", where="unit", fix=f"Choose one of {', '.join(Unit.values)}.")
    if not usd.is_finite() or usd < 0 or usd >= _MOST:
        raise UserError("A price is a number of dollars, 0 or more.", where="usd", fix="Write it as 14.40.")
    if not subject.strip():
        raise UserError("Say what it is the price of.", where="subject", fix="A model, a backend, or * for all.")
    start = valid_from or timezone.now()
    if Price.objects.filter(unit=unit, subject=subject.strip(), valid_from=start).exists():
        raise Conflict("There is a price from that very moment on.", where="valid_from", fix="Choose another start.")
    price = Price.objects.create(
        unit=unit,
        subject=subject.strip(),
        usd=unit_price(unit, usd),
        valid_from=start,
        note=note[:200],
        created_by=user,
    )
    if start <= timezone.now():
        lines_price_everywhere()
    return price


@transaction.atomic
def quota_set(
    *, actor: Actor, user: User | None = None, api_key: ApiKey | None = None, job: str = "", **limits: Any
) -> Quota:
    """Set limits of the team, or of one member, key or job of it. Limits that are not named stay; None lifts one."""
    check_can(actor, Permission.BUDGET_APPROVE, team=actor.team)
    _check_belongs(actor.team, user, api_key)
    for name, value in limits.items():
        check_limit(name, value)
    scope = _scope(user, api_key, job)
    team_lock(actor.team)
    quota, _ = Quota.objects.get_or_create(team=actor.team, scope=scope, defaults={"user": user, "api_key": api_key})
    changes = {}
    for name, value in limits.items():
        before = getattr(quota, name)
        if before != value:
            changes[name] = [None if one is None else str(one) for one in (before, value)]
            setattr(quota, name, value)
    quota.save()
    if changes:
        audit(actor, "quota.set", quota, scope=quota.words, **changes)
    return quota


def _scope(user: User | None, api_key: ApiKey | None, job: str) -> str:
    if user:
        return scopes.of_member(user)
    if api_key:
        return scopes.of_key(api_key)
    return scopes.of_job(job) if job else scopes.TEAM


def _check_belongs(team: Team, user: User | None, api_key: ApiKey | None) -> None:
    if user and not Membership.objects.filter(team=team, user=user).exists():
        raise NotFound("There is no such member.")
    if api_key and api_key.team_id != team.pk:
        raise NotFound("There is no such key.")


def check_limit(name: str, value: Any) -> None:
    """Raise a UserError at the field when that is no limit."""
    if name not in (*MONEY_LIMITS, *COUNT_LIMITS):
        raise UserError(f"There is no limit named {name}.", where=name)
    if value is None:
        return
    if name in COUNT_LIMITS:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
            raise UserError(f"{value!r} is not a count.", where=name, fix="Write a whole number, 0 or more.")
        return
    amount = Decimal(str(value))
    if not amount.is_finite() or amount < 0 or amount >= _MOST or amount != amount.quantize(Decimal("0.01")):
        raise UserError(f"{value} is not an amount.", where=name, fix="Write dollars as 12 or 12.50.")


@transaction.atomic
def time_zone_set(*, actor: Actor, time_zone: str) -> Team:
    """Cut the team's days and months in another zone from now on; months that were summed up are counted again."""
    check_can(actor, Permission.TEAM_MANAGE, team=actor.team)
    if time_zone not in available_timezones():
        raise UserError(f"There is no time zone {time_zone!r}.", where="time_zone", fix="Write it as Europe/Berlin.")
    team_lock(actor.team)
    team = Team.objects.get(pk=actor.team.pk)
    if team.time_zone != time_zone:
        check_not_closed(team)
        before, team.time_zone = team.time_zone, time_zone
        team.save(update_fields=["time_zone", "updated_at"])
        sums_count_again(team=team)
        audit(actor, "team.time_zone_set", team, time_zone=[before, time_zone])
    return team


@transaction.atomic
def stop_set(*, user: User, team: Team | None, is_on: bool, reason: str = "") -> StopSwitch:
    """Stop all spending of a team, or of everyone, or open it again. Running jobs pause at their next train step."""
    if not user.is_superuser:
        raise NotAllowed("Only an administrator of this installation stops spending.")
    if is_on and not reason.strip():
        raise UserError("Say why; every member who is refused reads it.", where="reason", fix="Write one sentence.")
    switch, _ = StopSwitch.objects.select_for_update().get_or_create(team=team)
    switch.is_on, switch.reason, switch.changed_by = is_on, reason.strip()[:200] if is_on else "", user
    switch.save()
    verb = "spending.stopped" if is_on else "spending.opened"
    for one in [team] if team else Team.objects.all():
        audit(staff_actor(one, user), verb, switch, reason=switch.reason, everywhere=team is None)
    return switch
