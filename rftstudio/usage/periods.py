"""Days and months as a team's calendar cuts them. A day of a clock change has 23 or 25 hours and is one day all the same."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rftstudio.teams.models import Team


def zone_of(team: Team) -> ZoneInfo:
    """The team's time zone; UTC when this machine does not know the name."""
    try:
        return ZoneInfo(team.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def day_of(at: datetime, zone: ZoneInfo) -> date:
    return at.astimezone(zone).date()


def month_of(at: datetime, zone: ZoneInfo) -> date:
    """The first day of the month in which that moment lies."""
    return day_of(at, zone).replace(day=1)


def day_start(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def next_month(month: date) -> date:
    return (month.replace(day=1) + timedelta(days=32)).replace(day=1)


def last_month(month: date) -> date:
    return (month.replace(day=1) - timedelta(days=1)).replace(day=1)


def bounds(first: date, last: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The moments between which these days lie, the last one included: start ≤ at < end."""
    return day_start(first, zone), day_start(last + timedelta(days=1), zone)


def days(first: date, last: date) -> list[date]:
    """Each day from the first to the last, idle ones too."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]
