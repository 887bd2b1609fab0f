"""Reads of money: prices, what is left, what is held, why work must stop. Pages read more in `reports`."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone

from rftstudio.core.errors import NotFound
from rftstudio.core.money import show_usd
from rftstudio.teams.models import ApiKey, Team
from rftstudio.usage import periods, scopes
from rftstudio.usage.models import Approval, LedgerLine, MonthSum, Quota, Reservation, StopSwitch, Unit
from rftstudio.usage.prices import PriceBook

NOTHING = Decimal(0)


def price_at(*, unit: str, subject: str, at: datetime) -> Decimal | None:
    """Dollars for one unit at that moment: the subject's own price before the one for all (`*`); None when there is none."""
    return PriceBook().at(unit, subject, at)


@dataclass(frozen=True)
class Budget:
    """What a scope has spent and holds in a month, against its quota. `left` is below zero when it is over."""

    scope: str
    month: date
    spent: Decimal
    held: Decimal
    quota: Decimal | None
    unpriced: int = 0

    @property
    def left(self) -> Decimal | None:
        return None if self.quota is None else self.quota - self.spent - self.held

    @property
    def over(self) -> Decimal:
        return max(NOTHING, -self.left) if self.left is not None else NOTHING

    @property
    def share(self) -> float | None:
        """Of the quota, what is gone or held."""
        return None if not self.quota else float((self.spent + self.held) / self.quota)


def reservations_open(*, team: Team, scope: str = scopes.TEAM) -> QuerySet[Reservation]:
    """What is held now in a scope."""
    rows = Reservation.objects.filter(team=team, status=Reservation.Status.HELD)
    kind, _, key = scope.partition(":")
    if kind == "member":
        return rows.filter(user_id=key)
    if kind == "key":
        return rows.filter(api_key_id=key)
    return rows.filter(source=key) if kind == "job" else rows


def held_usd(*, team: Team, scope: str = scopes.TEAM) -> Decimal:
    """What is set aside and not spent yet."""
    rows = reservations_open(team=team, scope=scope).filter(held_usd__gt=F("spent_usd"))
    return sum((held - spent for held, spent in rows.values_list("held_usd", "spent_usd")), NOTHING)


def quotas_of(*, team: Team, wanted: list[str]) -> dict[str, Quota]:
    """The quotas of these scopes. A key's own budget counts as its monthly quota, the lower of the two."""
    rows = Quota.objects.filter(team=team, scope__in=wanted).select_related("user", "api_key")
    found = {quota.scope: quota for quota in rows}
    keys = [scope.partition(":")[2] for scope in wanted if scope.startswith("key:")]
    for key in ApiKey.objects.filter(team=team, pk__in=keys, budget_usd__isnull=False) if keys else ():
        quota = found.setdefault(scopes.of_key(key), Quota(team=team, scope=scopes.of_key(key), api_key=key))
        quota.usd_month = key.budget_usd if quota.usd_month is None else min(quota.usd_month, key.budget_usd)
    return found


def budget_get(
    *, team: Team, scope: str = scopes.TEAM, quota: Quota | None = None, now: datetime | None = None
) -> Budget:
    """Spent, held and left in the present month of the team's calendar."""
    month = periods.month_of(now or timezone.now(), periods.zone_of(team))
    row = MonthSum.objects.filter(team=team, scope=scope, month=month).first()
    quota = quota or quotas_of(team=team, wanted=[scope]).get(scope)
    return Budget(
        scope=scope,
        month=month,
        spent=row.usd if row else NOTHING,
        held=held_usd(team=team, scope=scope),
        quota=quota.usd_month if quota else None,
        unpriced=row.unpriced if row else 0,
    )


def reservation_find(*, source: str) -> Reservation | None:
    return Reservation.objects.filter(source=source).first()


def source_spent(*, source: str) -> Decimal | None:
    """Dollars booked for a source so far, corrections included; None where nothing of it is priced."""
    return LedgerLine.objects.filter(batch_source=source, kind__in=LedgerLine.SPEND).aggregate(sum=Sum("usd"))["sum"]


def last_spent(*, source: str, unit: str) -> LedgerLine | None:
    """The newest line of a source that counted this unit."""
    rows = LedgerLine.objects.filter(batch_source=source, kind=LedgerLine.Kind.SPENT, unit=unit)
    return rows.order_by("-id").first()


def rollouts_today(*, team: Team, scope: str = scopes.TEAM, now: datetime | None = None) -> int:
    """Rollouts ordered since midnight of the team's calendar."""
    zone = periods.zone_of(team)
    start = periods.day_start(periods.day_of(now or timezone.now(), zone), zone)
    rows = Reservation.objects.filter(team=team, created_at__gte=start)
    kind, _, key = scope.partition(":")
    if kind == "member":
        rows = rows.filter(user_id=key)
    elif kind == "key":
        rows = rows.filter(api_key_id=key)
    return rows.aggregate(sum=Sum("rollouts"))["sum"] or 0


def storage_measured(*, team: Team) -> tuple[int, datetime | None]:
    """Bytes that the team kept when they were last counted, and when that was."""
    rows = LedgerLine.objects.filter(team=team, unit=Unit.STORAGE_GB_DAY, kind=LedgerLine.Kind.SPENT)
    line = rows.order_by("-id").first()
    return (int(line.quantity * 10**9), line.at) if line else (0, None)


def stopped_by(*, team: Team) -> str:
    """Why nothing may be spent, or nothing: the switch of the team or of everyone is on."""
    switch = StopSwitch.objects.filter(Q(team=None) | Q(team=team), is_on=True).order_by("team").first()
    if switch is None:
        return ""
    whose = f"for {team}" if switch.team_id else "for all teams"
    return f"Spending is stopped {whose}{': ' + switch.reason.rstrip('.') if switch.reason else ''}."


def stopped_everywhere() -> bool:
    return StopSwitch.objects.filter(team=None, is_on=True).exists()


def spend_stop_reason(*, team: Team, source: str, next_usd: Decimal | None = None) -> str:
    """Why work that runs must stop now, or nothing. `next_usd` is what it will spend before it can stop."""
    if stopped := stopped_by(team=team):
        return stopped
    found = Reservation.objects.filter(team=team, source=source).first()
    if found is None:
        return ""
    if found.held_usd is not None:
        if found.spent_usd and found.spent_usd + (next_usd or NOTHING) >= found.held_usd:
            return (
                f"Stopped at {show_usd(found.spent_usd)}: the {show_usd(found.held_usd)} held for it are used up, "
                f"or would be with the step at work."
            )
        return ""
    # A price came after the launch, so nothing was held; then the quota itself is the limit.
    for scope in scopes.scopes_of(user_id=found.user_id, api_key_id=found.api_key_id):
        budget = budget_get(team=team, scope=scope)
        if found.spent_usd and budget.left is not None and budget.left <= 0:
            return f"Stopped: {show_usd(budget.quota)} of this month are used up."
    return ""


def approval_waiting(*, source: str) -> Approval | None:
    return Approval.objects.filter(source=source, status=Approval.Status.WAITING).first()


def approval_list(*, team: Team) -> QuerySet[Approval]:
    """Those that wait, oldest first."""
    rows = Approval.objects.filter(team=team, status=Approval.Status.WAITING)
    return rows.select_related("asked_by", "api_key", "team").order_by("id")


def approval_get(*, team: Team, public_id: str) -> Approval:
    found = Approval.objects.filter(team=team, public_id=public_id).select_related("asked_by", "team").first()
    if found is None:
        raise NotFound("There is no such request.")
    return found


def approvals_undone() -> QuerySet[Approval]:
    """Decided, but what waited has not been told; the look of a higher floor does it."""
    decided = [Approval.Status.APPROVED, Approval.Status.DECLINED]
    return (
        Approval.objects.filter(status__in=decided, is_done=False).select_related("team", "decided_by").order_by("id")
    )
