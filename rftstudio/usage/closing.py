"""Closing the books: a closed month's sums stay as they were reported. Late usage and corrections go to the first open month."""

from datetime import date, datetime

from django.db import transaction
from django.utils import timezone

from rftstudio.core.errors import Conflict, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage import periods, scopes
from rftstudio.usage.models import MonthClosing, MonthSum


def last_closing(*, team: Team) -> MonthClosing | None:
    return MonthClosing.objects.filter(team=team, reopened_at=None).order_by("-month").first()


def books_open_from(*, team: Team) -> datetime | None:
    """The first moment that may still be booked; None while no month is closed."""
    row = last_closing(team=team)
    return periods.day_start(periods.next_month(row.month), team.zone) if row else None


def booked_at(at: datetime, open_from: datetime | None) -> datetime:
    return at if open_from is None or at >= open_from else open_from


@transaction.atomic
def month_close(*, actor: Actor, month: date) -> MonthClosing:
    """Close a month that is over, and all before it."""
    check_can(actor, Permission.BUDGET_APPROVE, team=actor.team)
    team = Team.objects.select_for_update(no_key=True).get(pk=actor.team.pk)
    month = month.replace(day=1)
    if periods.next_month(month) > periods.day_of(timezone.now(), team.zone):
        raise UserError(
            f"{month:%B %Y} is not over yet.", where="month", fix="Close it on the first day of the next month."
        )
    last = last_closing(team=team)
    if last and last.month >= month:
        raise Conflict(f"{month:%B %Y} is closed already.")
    found = MonthSum.objects.filter(team=team, scope=scopes.TEAM, month=month).first()
    closing = MonthClosing.objects.create(
        team=team,
        month=month,
        usd=found.usd if found else 0,
        unpriced=found.unpriced if found else 0,
        closed_by=actor.user,
    )
    audit(actor, "month.closed", closing, month=f"{month:%Y-%m}", usd=str(closing.usd))
    return closing


@transaction.atomic
def month_reopen(*, actor: Actor, month: date, reason: str) -> MonthClosing:
    """Open the last closed month again, with a reason. What was booked later meanwhile stays where it is."""
    check_can(actor, Permission.BUDGET_APPROVE, team=actor.team)
    Team.objects.select_for_update(no_key=True).only("pk").get(pk=actor.team.pk)
    last = last_closing(team=actor.team)
    if last is None or last.month != month.replace(day=1):
        raise Conflict("Only the month that was closed last can be opened again.")
    if not reason.strip():
        raise UserError("Say why it is opened again.", where="reason", fix="Write one sentence.")
    last.reopened_at = timezone.now()
    last.save(update_fields=["reopened_at"])
    audit(actor, "month.reopened", last, month=f"{last.month:%Y-%m}", reason=reason.strip()[:300])
    return last


def check_not_closed(team: Team) -> None:
    """Another time zone would cut closed months anew."""
    if last := last_closing(team=team):
        raise Conflict(
            f"{last.month:%B %Y} is closed in {team.time_zone}; another time zone would change its sum.",
            where="time_zone",
            fix="Open the closed months again first.",
        )
