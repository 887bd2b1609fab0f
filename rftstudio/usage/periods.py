"""Days and months as a team's calendar cuts them. A day of a clock change has 23 or 25 hours and is one day all the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from rftstudio.teams.models import Team


def zone_of(team: Team) -> ZoneInfo:
    return team.zone


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


@dataclass(frozen=True)
class Period:
    """Days that a page looks at, as one address names them: `day=2026-11-20`, `month=2026-11`, `year=2026`, or from and to."""

    kind: str
    first: date
    last: date

    @property
    def words(self) -> str:
        """November 2026 · 20 November 2026 · 2026 · 3 to 9 November 2026."""
        if self.kind == "month":
            return f"{self.first:%B %Y}"
        if self.kind == "year":
            return f"{self.first.year}"
        if self.first == self.last:
            return f"{self.first.day} {self.first:%B %Y}"
        return f"{self.first.day} {self.first:%B} to {self.last.day} {self.last:%B %Y}"

    @property
    def query(self) -> str:
        if self.kind == "month":
            return f"month={self.first:%Y-%m}"
        if self.kind == "year":
            return f"year={self.first.year}"
        return f"day={self.first}" if self.first == self.last else f"from={self.first}&to={self.last}"

    def shifted(self, by: int) -> "Period":
        """The period before (−1) or after (+1) of the same kind."""
        if self.kind == "month":
            return month_period(next_month(self.first) if by > 0 else last_month(self.first))
        if self.kind == "year":
            return year_period(self.first.year + by)
        length = (self.last - self.first).days + 1
        step = timedelta(days=length * by)
        return Period(self.kind, self.first + step, self.last + step)


def month_period(month: date) -> Period:
    return Period("month", month.replace(day=1), next_month(month) - timedelta(days=1))


def year_period(year: int) -> Period:
    return Period("year", date(year, 1, 1), date(year, 12, 31))


def period_of(query: Mapping[str, str], today: date) -> Period:
    """What the address asks for; what cannot be read counts as not asked. Without anything: the present month."""
    if (month := _date(f"{query.get('month', '')}-01")) is not None:
        return month_period(month)
    if query.get("year", "").isascii() and query.get("year", "").isdigit() and 2000 <= int(query["year"]) <= 2200:
        return year_period(int(query["year"]))
    if (day := _date(query.get("day", ""))) is not None:
        return Period("day", day, day)
    first, last = _date(query.get("from", "")), _date(query.get("to", ""))
    if first and last and first <= last and (last - first).days <= 400:
        return Period("days", first, last)
    return month_period(today)


def _date(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if 2000 <= found.year <= 2200 else None
