"""May this much be spent? Every limit of team, member, key and job, checked under the team's lock."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from rftstudio.core.errors import QuotaExceeded
from rftstudio.core.money import show_usd
from rftstudio.teams.models import Team
from rftstudio.usage import scopes, selectors
from rftstudio.usage.models import Quota, Reservation


@dataclass(frozen=True)
class Order:
    """What somebody wants to start or go on with. `amount` None: no price is known, so no sum can be held."""

    team: Team
    source: str
    kind: str
    label: str
    amount: Decimal | None
    rollouts: int
    user_id: int | None
    api_key_id: int | None
    already: Decimal = Decimal(0)

    @property
    def thing(self) -> str:
        return "job" if self.kind == Reservation.Kind.JOB else "evaluation"

    @property
    def scopes(self) -> list[str]:
        return scopes.scopes_of(user_id=self.user_id, api_key_id=self.api_key_id)


def check_open(team: Team) -> None:
    """Refuse while a stop switch is on."""
    if stopped := selectors.stopped_by(team=team):
        raise QuotaExceeded(stopped, fix="An administrator turns spending on again in the console.")


def check_may_spend(*, team: Team) -> None:
    """For small spends that hold nothing, such as a trial with a judge: refuse once nothing is left, or all is stopped."""
    check_open(team)
    budget = selectors.budget_get(team=team)
    if budget.left is not None and budget.left <= 0:
        raise QuotaExceeded(
            f"{team} has nothing left this month of {show_usd(budget.quota)}.",
            fix="Ask a team owner to raise the quota.",
        )


def check_limits(order: Order, *, now: datetime | None = None, ignore_money: bool = False) -> None:
    """Raise QuotaExceeded at the first limit that the order passes. `ignore_money`: a right-holder approved the sum."""
    quotas = selectors.quotas_of(team=order.team, wanted=order.scopes)
    for scope, quota in quotas.items():
        _check_counts(order, scope, quota, now)
        if order.kind == Reservation.Kind.JOB and scope == scopes.TEAM:
            _check_disk(order.team, quota)
        if not ignore_money:
            _check_month(order, scope, quota, now)
    if not ignore_money:
        _check_job(order, list(quotas.values()))


def _whose(order: Order, quota: Quota) -> str:
    return str(order.team) if quota.scope == scopes.TEAM else quota.words


def _check_month(order: Order, scope: str, quota: Quota, now: datetime | None) -> None:
    if quota.usd_month is None:
        return
    budget = selectors.budget_get(team=order.team, scope=scope, quota=quota, now=now)
    amount = order.amount or Decimal(0)
    if budget.left < amount or (budget.left <= 0 and order.amount is None and budget.spent):
        left = f"{show_usd(budget.left)} left" if budget.left >= 0 else f"passed its quota by {show_usd(budget.over)}"
        cost = f"may cost {show_usd(order.amount)}" if order.amount is not None else "has no known price"
        raise QuotaExceeded(
            f"This {order.thing} {cost}; {_whose(order, quota)} has {left} this month.",
            where="hyperparameters.n_epochs" if order.kind == Reservation.Kind.JOB else "samples_per_item",
            fix="Plan fewer rollouts, or ask a team owner to raise the quota.",
        )


def _check_job(order: Order, quotas: list[Quota]) -> None:
    if order.kind != Reservation.Kind.JOB or order.amount is None:
        return
    own = Quota.objects.filter(team=order.team, scope=scopes.of_job(order.source)).first()
    limits = [quota.usd_job for quota in ([own] if own else quotas) if quota.usd_job is not None]
    if limits and order.already + order.amount > min(limits):
        spent = f" after {show_usd(order.already)} spent already" if order.already else ""
        raise QuotaExceeded(
            f"This job may cost {show_usd(order.amount)}{spent}; one job may cost {show_usd(min(limits))} in all.",
            where="hyperparameters.n_epochs",
            fix="Plan fewer rollouts, or ask a team owner to raise the limit per job.",
        )


def _check_counts(order: Order, scope: str, quota: Quota, now: datetime | None) -> None:
    if quota.jobs_at_once is not None and order.kind == Reservation.Kind.JOB:
        others = selectors.reservations_open(team=order.team, scope=scope).filter(kind=Reservation.Kind.JOB)
        if others.exclude(source=order.source).count() >= quota.jobs_at_once:
            raise QuotaExceeded(
                f"{_whose(order, quota)} may have {quota.jobs_at_once} jobs at once, and that many are waiting or running.",
                fix="Wait until one ends, pause one, or ask a team owner to raise the limit.",
            )
    if quota.rollouts_day is not None and order.rollouts:
        ordered = selectors.rollouts_today(team=order.team, scope=scope, now=now)
        if ordered + order.rollouts > quota.rollouts_day:
            raise QuotaExceeded(
                f"This {order.thing} needs {order.rollouts:,} rollouts; {_whose(order, quota)} has "
                f"{max(0, quota.rollouts_day - ordered):,} of {quota.rollouts_day:,} left today.",
                fix="Plan fewer rollouts, wait until tomorrow, or ask a team owner to raise the limit.",
            )


def _check_disk(team: Team, quota: Quota) -> None:
    """A job writes checkpoints, so it starts only while there is room, as last counted."""
    used, _ = selectors.storage_measured(team=team)
    if quota.storage_gb is not None and used >= quota.storage_gb * 10**9:
        raise QuotaExceeded(
            f"{team} keeps {used / 1e9:.2f} of {quota.storage_gb.normalize():f} GB; a job would write more.",
            fix="Delete checkpoints or files that are no longer needed, or ask a team owner to raise the quota.",
        )


def approval_limit(order: Order) -> Decimal | None:
    """The sum above which an owner wants to be asked."""
    quotas = selectors.quotas_of(team=order.team, wanted=order.scopes).values()
    return min((quota.approval_above_usd for quota in quotas if quota.approval_above_usd is not None), default=None)


def check_storage(*, team: Team, used_bytes: int, more_bytes: int) -> None:
    """Refuse bytes beyond the team's storage. Whoever keeps them says how many there are."""
    quota = Quota.objects.filter(team=team, scope=scopes.TEAM).first()
    if quota is None or quota.storage_gb is None:
        return
    if used_bytes + more_bytes > quota.storage_gb * 10**9:
        raise QuotaExceeded(
            f"{team} may keep {quota.storage_gb.normalize():f} GB and has {used_bytes / 1e9:.2f} GB; this is {more_bytes / 1e9:.2f} GB more.",
            fix="Delete what is no longer needed, or ask a team owner to raise the quota.",
        )
