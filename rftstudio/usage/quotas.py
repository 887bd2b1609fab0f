"""Quotas with what is gone of them, for one team or all: as many queries for a hundred as for one."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import F
from django.utils import timezone

from rftstudio.teams.models import ApiKey, Team
from rftstudio.usage import periods, scopes
from rftstudio.usage.models import MonthSum, Quota, Reservation
from rftstudio.usage.selectors import NOTHING, Budget

NEAR = 0.8
_ORDER = {"team": 0, "member": 1, "key": 2, "job": 3}
Place = tuple[int, str]  # a team and a scope in it


@dataclass(frozen=True)
class QuotaLine:
    """A quota with what is gone of it. `near`: four fifths or more are gone or held."""

    quota: Quota
    budget: Budget
    jobs: int
    rollouts: int

    @property
    def near(self) -> bool:
        return self.budget.share is not None and self.budget.share >= NEAR


def quota_lines(*, team: Team, now: datetime | None = None) -> list[QuotaLine]:
    """The team's first, then members and keys, then single jobs."""
    quotas = _with_keys(Quota.objects.filter(team=team), ApiKey.objects.filter(team=team))
    return lines_of(sorted(quotas, key=lambda one: _ORDER[one.scope.partition(":")[0]]), now=now)


def near_limits(*, now: datetime | None = None) -> list[QuotaLine]:
    """Over all teams: whose money is nearly gone, the worst first."""
    quotas = _with_keys(Quota.objects.exclude(scope__startswith="job:"), ApiKey.objects.all())
    lines = lines_of([quota for quota in quotas if quota.usd_month is not None], now=now)
    return sorted((line for line in lines if line.near), key=lambda line: -(line.budget.share or 0))


def _with_keys(quotas, keys) -> list[Quota]:
    """A key's own budget is a monthly quota too; of two the lower holds."""
    found = {(one.team_id, one.scope): one for one in quotas.select_related("team", "user", "api_key")}
    for key in keys.filter(budget_usd__isnull=False, revoked_at=None).select_related("team"):
        scope = scopes.of_key(key)
        quota = found.setdefault((key.team_id, scope), Quota(team=key.team, scope=scope, api_key=key))
        quota.usd_month = key.budget_usd if quota.usd_month is None else min(quota.usd_month, key.budget_usd)
    return list(found.values())


def lines_of(quotas: Iterable[Quota], *, now: datetime | None = None) -> list[QuotaLine]:
    """Each quota with its month, its jobs and its day, in the order given."""
    quotas, now = list(quotas), now or timezone.now()
    teams = {quota.team_id: quota.team for quota in quotas}
    months = {pk: periods.month_of(now, team.zone) for pk, team in teams.items()}
    sums = {
        (row.team_id, row.scope, row.month): row
        for row in MonthSum.objects.filter(team__in=teams, month__in=set(months.values()))
    }
    held, jobs = _open(list(teams))
    rollouts = _today(teams, now) if any(quota.rollouts_day is not None for quota in quotas) else {}
    lines = []
    for quota in quotas:
        place, month = (quota.team_id, quota.scope), months[quota.team_id]
        row = sums.get((*place, month))
        budget = Budget(
            scope=quota.scope, month=month, spent=row.usd if row else NOTHING, held=held.get(place, NOTHING),
            quota=quota.usd_month, unpriced=row.unpriced if row else 0,
        )  # fmt: skip
        lines.append(QuotaLine(quota, budget, jobs.get(place, 0), rollouts.get(place, 0)))
    return lines


def held_of_teams() -> dict[int, Decimal]:
    """What each team holds and has not spent yet."""
    held, _ = _open(None)
    return {team: usd for (team, scope), usd in held.items() if scope == scopes.TEAM}


def _places(row: dict) -> list[Place]:
    own = scopes.scopes_of(user_id=row["user_id"], api_key_id=row["api_key_id"])
    return [(row["team_id"], scope) for scope in (*own, scopes.of_job(row["source"]))]


def _open(teams: list[int] | None) -> tuple[dict[Place, Decimal], dict[Place, int]]:
    """Dollars held and jobs that wait or run, by team and scope."""
    held: dict[Place, Decimal] = defaultdict(Decimal)
    jobs: dict[Place, int] = defaultdict(int)
    rows = Reservation.objects.filter(status=Reservation.Status.HELD)
    rows = rows if teams is None else rows.filter(team__in=teams)
    for row in rows.values("team_id", "user_id", "api_key_id", "source", "kind", "held_usd", "spent_usd"):
        for place in _places(row):
            jobs[place] += row["kind"] == Reservation.Kind.JOB
            if row["held_usd"] is not None:
                held[place] += max(row["held_usd"] - row["spent_usd"], NOTHING)
    return held, jobs


def _today(teams: dict[int, Team], now: datetime) -> dict[Place, int]:
    """Rollouts ordered since midnight of each team's calendar."""
    starts = {pk: periods.day_start(periods.day_of(now, team.zone), team.zone) for pk, team in teams.items()}
    rows = Reservation.objects.filter(team__in=teams, created_at__gte=min(starts.values()), rollouts__gt=0)
    counts: dict[Place, int] = defaultdict(int)
    for row in rows.values("team_id", "user_id", "api_key_id", "source", n=F("rollouts"), at=F("created_at")):
        if row["at"] >= starts[row["team_id"]]:
            for place in _places(row):
                counts[place] += row["n"]
    return counts
