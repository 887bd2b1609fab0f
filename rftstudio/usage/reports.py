"""What the pages of costs read: spend by day and by what it was for, forecast, quotas with their use, ledger lines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import sqrt
from statistics import fmean, stdev
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone
from django.utils.module_loading import import_string

from rftstudio.teams.models import ApiKey, Team, User
from rftstudio.usage import periods, quotas, scopes, selectors
from rftstudio.usage.models import Category, LedgerLine, MonthClosing, MonthSum, Quota, Reservation
from rftstudio.usage.periods import Period

BY = {"category": "by purpose", "job": "by job", "model": "by model", "member": "by member"}
#: Series that are drawn on their own; the rest is one more.
MOST_SERIES = 5
OTHER = "other"
#: In a query of the ledger: lines that name no job, or no model.
NONE = "-"
_KEYS = {
    "team": ("team_id",),
    "category": ("category",),
    "job": ("batch_source",),
    "model": ("subject",),
    "member": ("user_id", "api_key_id"),
}


@dataclass
class SpendRow:
    """One line of the table: what it was for, in all and by category. `query` finds its ledger lines."""

    key: tuple
    label: str
    query: str
    usd: Decimal = Decimal(0)
    by_day: dict[date, Decimal] = field(default_factory=dict)
    by_category: dict[str, Decimal] = field(default_factory=dict)

    def add(self, day: date, category: str, usd: Decimal) -> None:
        self.usd += usd
        self.by_day[day] = self.by_day.get(day, Decimal(0)) + usd
        self.by_category[category] = self.by_category.get(category, Decimal(0)) + usd


@dataclass(frozen=True)
class Spend:
    """Spend of a period, cut into days of the team's calendar; idle days are there, at nothing."""

    period: Period
    zone: str
    days: list[date]
    rows: list[SpendRow]

    @property
    def usd(self) -> Decimal:
        return sum((row.usd for row in self.rows), Decimal(0))

    def on(self, day: date) -> Decimal:
        return sum((row.by_day.get(day, Decimal(0)) for row in self.rows), Decimal(0))

    def by_category(self) -> dict[str, Decimal]:
        sums: dict[str, Decimal] = {}
        for row in self.rows:
            for name, usd in row.by_category.items():
                sums[name] = sums.get(name, Decimal(0)) + usd
        return dict(sorted(sums.items(), key=lambda one: -one[1]))


def spend_of(*, team: Team | None, period: Period, by: str = "category") -> Spend:
    """Dearest first. Without team: of all teams, whose days are cut in UTC because each has a calendar of its own."""
    zone = periods.zone_of(team) if team else ZoneInfo("UTC")
    start, end = periods.bounds(period.first, period.last, zone)
    keys = _KEYS[by]
    lines = LedgerLine.objects.filter(kind__in=LedgerLine.SPEND, at__gte=start, at__lt=end, usd__isnull=False)
    if team is not None:
        lines = lines.filter(team=team)
    sums = (
        lines.annotate(day=TruncDate("at", tzinfo=zone))
        .values("day", "category", *[key for key in keys if key != "category"])
        .annotate(sum=Sum("usd"))
        .order_by()
    )
    rows: dict[tuple, SpendRow] = {}
    found = list(sums)
    name = _namer(by, found)
    for one in found:
        key = tuple(one[part] for part in keys)
        if key not in rows:
            rows[key] = SpendRow(key, *name(key))
        rows[key].add(one["day"], one["category"], one["sum"].quantize(Decimal("1e-8")))
    ordered = sorted(rows.values(), key=lambda row: (-row.usd, row.label))
    return Spend(period, zone.key, periods.days(period.first, period.last), ordered)


def _namer(by: str, found: list[dict[str, Any]]):
    """A function from a key to its words and its query in the ledger."""
    if by == "category":
        return lambda key: (str(Category(key[0]).label), f"category={key[0]}")
    if by == "team":
        teams = {row.pk: row for row in Team.objects.filter(pk__in={one["team_id"] for one in found})}
        return lambda key: (str(teams[key[0]]), "")
    if by == "model":
        return lambda key: (key[0] or OTHER, urlencode({"subject": key[0] or NONE}))
    if by == "job":
        sources = {one["batch_source"] for one in found}
        labels = dict(Reservation.objects.filter(source__in=sources).values_list("source", "label"))
        return lambda key: (labels.get(key[0]) or key[0] or "Trials and tests", urlencode({"for": key[0] or NONE}))
    users = {user.pk: str(user) for user in User.objects.filter(pk__in={one["user_id"] for one in found} - {None})}
    keys = {row.pk: row.name for row in ApiKey.objects.filter(pk__in={one["api_key_id"] for one in found} - {None})}

    def member(key: tuple) -> tuple[str, str]:
        user_id, api_key_id = key
        if api_key_id is not None:
            return f"key {keys.get(api_key_id, '')}", f"key={api_key_id}"
        return users.get(user_id, "nobody in particular"), f"member={user_id or 0}"

    return member


def points_of(spend: Spend, *, team: Team | None, by: str) -> dict[tuple, float]:
    """Rewards that the rows' graded rollouts added up to in the period; only jobs and teams order rollouts."""
    if by not in ("job", "team"):
        return {}
    start, end = periods.bounds(spend.period.first, spend.period.last, ZoneInfo(spend.zone))
    source = import_string(settings.STUDIO_REWARD_SOURCE)
    return {(key,): points for key, points in source(team=team, by=by, start=start, end=end).items()}


def usd_a_point(row: SpendRow, points: Mapping[tuple, float]) -> Decimal | None:
    """What a reward of 1 cost; None where no rollout was graded or all rewards are 0."""
    reward = points.get(row.key, 0.0)
    return row.usd / Decimal(str(reward)) if reward > 0 and row.usd > 0 else None


def folded(spend: Spend, most: int = MOST_SERIES) -> list[SpendRow]:
    """The dearest rows, and one more for the rest."""
    if len(spend.rows) <= most + 1:
        return spend.rows
    rest = SpendRow((), f"{len(spend.rows) - most} others", "")
    for row in spend.rows[most:]:
        for day, usd in row.by_day.items():
            rest.add(day, OTHER, usd)
    return [*spend.rows[:most], rest]


def month_spent(*, team: Team | None, month: date, scope: str = scopes.TEAM) -> Decimal:
    """Without team: of all, each in its own calendar."""
    rows = MonthSum.objects.filter(scope=scope, month=month)
    rows = rows if team is None else rows.filter(team=team)
    return rows.aggregate(sum=Sum("usd"))["sum"] or Decimal(0)


@dataclass(frozen=True)
class Forecast:
    """What the month will have cost at its end: most likely, and the range of nine in ten."""

    usd: Decimal
    low: Decimal
    high: Decimal
    last: date


def forecast_of(*, team: Team | None, now: datetime | None = None) -> Forecast | None:
    """From the daily sums of the last four weeks; None while there are fewer than four days to go by."""
    zone = periods.zone_of(team) if team else ZoneInfo("UTC")
    today = periods.day_of(now or timezone.now(), zone)
    month = periods.month_period(today)
    before = Period("days", today - timedelta(days=28), today - timedelta(days=1))
    past = spend_of(team=team, period=before)
    used = [day for day in past.days if past.on(day)]
    if not used:
        return None
    daily = [float(past.on(day)) for day in past.days if day >= used[0]]
    if len(daily) < 4:
        return None
    spent, rest = month_spent(team=team, month=month.first), (month.last - today).days + 1
    near, spread = fmean(daily) * rest, 1.645 * stdev(daily) * sqrt(rest)
    cents = [Decimal(str(round(value, 2))) for value in (near, max(near - spread, 0.0), near + spread)]
    return Forecast(spent + cents[0], spent + cents[1], spent + cents[2], month.last)


def held_counts(*, team: Team) -> dict[str, int]:
    """How many jobs and evaluations hold money or a place."""
    rows = selectors.reservations_open(team=team).values("kind").annotate(n=Count("id")).order_by()
    return {row["kind"]: row["n"] for row in rows}


# -- ledger -----------------------------------------------------------------------------------------------------------

FILTERS = ("for", "kind", "category", "subject", "member", "key", "unpriced", "day", "month", "year", "from", "to")


def ledger_list(*, team: Team, query: Mapping[str, str]) -> QuerySet[LedgerLine]:
    """Lines as filtered, the newest written first. Page it by `before=<id>`: what is added meanwhile shifts nothing."""
    rows = LedgerLine.objects.filter(team=team).select_related("reservation", "user", "api_key", "corrects")
    if wanted := query.get("for"):
        rows = rows.filter(batch_source="" if wanted == NONE else wanted)
    if wanted := query.get("kind"):
        rows = rows.filter(kind=wanted)
    if wanted := query.get("category"):
        rows = rows.filter(category=wanted)
    if wanted := query.get("subject"):
        rows = rows.filter(subject="" if wanted == NONE else wanted)
    if query.get("unpriced"):
        rows = rows.filter(kind=LedgerLine.Kind.SPENT, usd=None)
    rows = _of_person(rows, query)
    if any(query.get(name) for name in ("day", "month", "year", "from")):
        zone = periods.zone_of(team)
        period = periods.period_of(query, periods.day_of(timezone.now(), zone))
        start, end = periods.bounds(period.first, period.last, zone)
        rows = rows.filter(at__gte=start, at__lt=end)
    return rows.order_by("-id")


def _of_person(rows: QuerySet[LedgerLine], query: Mapping[str, str]) -> QuerySet[LedgerLine]:
    member, key = query.get("member", ""), query.get("key", "")
    if member == "0":
        return rows.filter(user=None, api_key=None)
    if member.isascii() and member.isdigit():
        rows = rows.filter(user_id=int(member[:18]))
    if key.isascii() and key.isdigit():
        rows = rows.filter(api_key_id=int(key[:18]))
    return rows


@dataclass(frozen=True)
class MonthLine:
    """A month of the books. `closing` while it is closed."""

    month: date
    usd: Decimal
    unpriced: int
    closing: MonthClosing | None
    is_over: bool
    is_last_closed: bool

    @property
    def is_closed(self) -> bool:
        return self.closing is not None


def month_lines(*, team: Team, now: datetime | None = None) -> list[MonthLine]:
    """Every month with spend, newest first. A closed month closes those before it."""
    today = periods.day_of(now or timezone.now(), team.zone)
    closings = list(
        MonthClosing.objects.filter(team=team, reopened_at=None).select_related("closed_by").order_by("month")
    )
    lines = []
    for row in MonthSum.objects.filter(team=team, scope=scopes.TEAM).order_by("-month"):
        by = next((one for one in closings if one.month >= row.month), None)
        is_last = bool(closings) and closings[-1].month == row.month
        lines.append(MonthLine(row.month, row.usd, row.unpriced, by, periods.next_month(row.month) <= today, is_last))
    return lines


def unpriced_subjects(*, team: Team | None = None) -> list[dict[str, Any]]:
    """What was counted without a price and still has none, by unit and subject."""
    rows = LedgerLine.objects.filter(kind=LedgerLine.Kind.SPENT, usd=None, corrections=None)
    if team is not None:
        rows = rows.filter(team=team)
    return list(
        rows.values("unit", "subject").annotate(lines=Count("id"), quantity=Sum("quantity")).order_by("-lines")[:20]
    )


def spend_of_teams(*, period: Period) -> list[tuple[Team, Decimal, Decimal, Decimal | None]]:
    """For each team what it spent in a month of its own calendar, holds now, and may spend; dearest first."""
    sums = dict(MonthSum.objects.filter(scope=scopes.TEAM, month=period.first).values_list("team_id", "usd"))
    limits = dict(Quota.objects.filter(scope=scopes.TEAM).values_list("team_id", "usd_month"))
    teams = Team.objects.filter(Q(pk__in=sums) | Q(pk__in=limits) | Q(pk__in=Reservation.objects.values("team")))
    held = quotas.held_of_teams()
    rows = [(team, sums.get(team.pk, Decimal(0)), held.get(team.pk, Decimal(0)), limits.get(team.pk)) for team in teams]
    return sorted(rows, key=lambda row: -row[1])
