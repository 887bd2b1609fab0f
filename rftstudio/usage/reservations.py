"""Reserve → record → settle. What is held and what is spent never passes a quota, however many ask at once."""

from dataclasses import replace
from decimal import ROUND_CEILING, Decimal

from django.db import transaction
from django.utils import timezone

from rftstudio.core.errors import Conflict, NotFound, UserError
from rftstudio.core.money import CENT, show_usd
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.services import audit
from rftstudio.usage import limits, scopes, selectors
from rftstudio.usage.ledger import lines_add, team_lock
from rftstudio.usage.limits import Order
from rftstudio.usage.models import Approval, Category, LedgerLine, Reservation
from rftstudio.usage.prices import exact_usd

Kind, Status = Reservation.Kind, Reservation.Status
_CATEGORY = {Kind.JOB: Category.TRAINING, Kind.EVALUATION: Category.EVALUATION}


def _amount(usd: Decimal | float | None) -> Decimal | None:
    """A sum to hold, rounded up to cents; None stays None: no price."""
    if usd is None:
        return None
    amount = Decimal(str(usd))
    if not amount.is_finite() or amount < 0:
        raise UserError(f"{usd!r} is no amount that can be held.", where="amount")
    return amount.quantize(CENT, ROUND_CEILING)


def _order(actor: Actor, source: str, kind: str, label: str, amount, rollouts: int) -> Order:
    return Order(
        team=actor.team, source=source, kind=kind, label=label, amount=_amount(amount), rollouts=rollouts,
        user_id=actor.user.pk if actor.user else None, api_key_id=actor.api_key.pk if actor.api_key else None,
    )  # fmt: skip


@transaction.atomic
def reservation_hold(
    *, actor: Actor, source: str, kind: str, label: str, amount: Decimal | float | None, rollouts: int = 0
) -> Reservation:
    """Set money aside for a job or an evaluation, or refuse. The same source again holds nothing more while it is held."""
    team_lock(actor.team)
    return _hold(_order(actor, source, kind, label, amount, rollouts))


def _hold(order: Order, *, ignore_money: bool = False) -> Reservation:
    """Under the team's lock."""
    found = Reservation.objects.filter(source=order.source).first()
    if found and found.team_id != order.team.pk:
        raise NotFound("There is nothing at this address.")
    if found and found.status == Status.HELD:
        return found
    limits.check_open(order.team)
    order = replace(order, already=found.spent_usd) if found else order
    limits.check_limits(order, ignore_money=ignore_money)
    row = found or Reservation(
        team=order.team, source=order.source, kind=order.kind, label=order.label[:160],
        user_id=order.user_id, api_key_id=order.api_key_id,
    )  # fmt: skip
    row.status, row.settled_at = Status.HELD, None
    row.held_usd = None if order.amount is None else row.spent_usd + order.amount
    row.holds += 1
    row.rollouts += order.rollouts
    row.save()
    if order.amount:
        lines_add(order.team, [_line(row, LedgerLine.Kind.HELD, order.amount, "high end of the estimate")])
    return row


def _line(row: Reservation, kind: str, usd: Decimal, note: str) -> LedgerLine:
    word = "hold" if kind == LedgerLine.Kind.HELD else "return"
    return LedgerLine(
        team=row.team, kind=kind, source=f"{row.source}/{word}/{row.holds}", batch_source=row.source,
        category=_CATEGORY[row.kind], note=note[:200], usd=usd, reservation=row, user_id=row.user_id,
        api_key_id=row.api_key_id, at=timezone.now(),
    )  # fmt: skip


@transaction.atomic
def reservation_settle(*, team: Team, source: str) -> Reservation | None:
    """Give back what was held and not spent. Doing it again changes nothing; requests that still wait are withdrawn."""
    team_lock(team)
    Approval.objects.filter(team=team, source=source, status=Approval.Status.WAITING).update(
        status=Approval.Status.WITHDRAWN, decided_at=timezone.now(), is_done=True
    )
    row = Reservation.objects.filter(team=team, source=source, status=Status.HELD).first()
    if row is None:
        return None
    rest = row.left_usd
    row.status, row.settled_at = Status.SETTLED, timezone.now()
    row.save(update_fields=["status", "settled_at", "updated_at"])
    if rest:
        words = f"held {exact_usd(row.held_usd)} − {exact_usd(row.spent_usd)} spent"
        lines_add(team, [_line(row, LedgerLine.Kind.RETURNED, Decimal(rest), words)])
    return row


# -- asking first -----------------------------------------------------------------------------------------------------


@transaction.atomic
def reservation_ask(
    *,
    actor: Actor,
    source: str,
    kind: str,
    label: str,
    amount: Decimal | float | None,
    likely: Decimal | float | None = None,
    rollouts: int = 0,
    words: str = "",
    concern: str = "",
) -> Reservation | Approval:
    """Hold the money, or, above the sum at which owners want to be asked, note a request that one of them decides."""
    team_lock(actor.team)
    order = _order(actor, source, kind, label, amount, rollouts)
    if not _needs_approval(actor, order):
        return _hold(order)
    if waiting := selectors.approval_waiting(source=source):
        return waiting
    limits.check_open(order.team)
    limits.check_limits(order)
    approval = Approval.objects.create(
        team=actor.team, source=source, label=label[:160], asked_by=actor.user, api_key=actor.api_key,
        amount_usd=order.amount, likely_usd=_amount(likely), rollouts=rollouts, words=words[:300], concern=concern[:300],
    )  # fmt: skip
    audit(actor, "approval.asked", approval, source=source, amount=str(order.amount))
    return approval


def reservation_outlook(*, actor: Actor, kind: str, amount: Decimal | float | None, rollouts: int = 0) -> bool:
    """Whether a new hold of that size would have to be approved; raises as the hold would. Holds nothing."""
    order = _order(actor, "", kind, "", amount, rollouts)
    limits.check_open(order.team)
    limits.check_limits(order)
    return _needs_approval(actor, order)


def _needs_approval(actor: Actor, order: Order) -> bool:
    limit = limits.approval_limit(order)
    above = order.amount is not None and limit is not None and order.amount > limit
    return above and not can(actor, Permission.BUDGET_APPROVE)


def approval_concern(approval: Approval) -> str:
    """Why approving it needs a reason: what was doubtful when it was asked, or the quota that it would pass by now."""
    problems = [approval.concern] if approval.concern else []
    for scope in scopes.scopes_of(user_id=approval.asked_by_id, api_key_id=approval.api_key_id):
        budget = selectors.budget_get(team=approval.team, scope=scope)
        if budget.left is not None and budget.left < approval.amount_usd:
            problems.append(f"It passes the quota by {show_usd(approval.amount_usd - budget.left)}.")
            break
    return " ".join(problems)


def _decide(actor: Actor, approval: Approval, status: str, reason: str) -> Approval:
    approval.status, approval.reason = status, reason[:300]
    approval.decided_by, approval.decided_at = actor.user, timezone.now()
    approval.save(update_fields=["status", "reason", "decided_by", "decided_at", "updated_at"])
    audit(actor, f"approval.{status}", approval, source=approval.source, amount=str(approval.amount_usd), reason=reason)
    return approval


def _waiting(actor: Actor, approval: Approval) -> Approval:
    check_can(actor, Permission.BUDGET_APPROVE, team=approval.team)
    team_lock(approval.team)
    approval = Approval.objects.select_for_update().get(pk=approval.pk)
    if approval.status != Approval.Status.WAITING:
        raise Conflict(f"The request was {approval.status} meanwhile.")
    return approval


@transaction.atomic
def approval_approve(*, actor: Actor, approval: Approval, reason: str = "") -> Approval:
    """Hold the sum in the name of whoever asked. Past the quota, or with a doubt noted, only with a reason."""
    approval = _waiting(actor, approval)
    concern = approval_concern(approval)
    if concern and not reason.strip():
        raise UserError(f"{concern} Say why it may be spent all the same.", where="reason", fix="Write one sentence.")
    _hold(
        Order(
            team=approval.team, source=approval.source, kind=Kind.JOB, label=approval.label, amount=approval.amount_usd,
            rollouts=approval.rollouts, user_id=approval.asked_by_id, api_key_id=approval.api_key_id,
        ),
        ignore_money=bool(concern),
    )  # fmt: skip
    return _decide(actor, approval, Approval.Status.APPROVED, reason.strip())


@transaction.atomic
def approval_decline(*, actor: Actor, approval: Approval, reason: str) -> Approval:
    """Say no, and why."""
    approval = _waiting(actor, approval)
    if not reason.strip():
        raise UserError(
            "Say why, so that whoever asked knows what to change.", where="reason", fix="Write one sentence."
        )
    return _decide(actor, approval, Approval.Status.DECLINED, reason.strip())


def approval_done(*, approval: Approval) -> bool:
    """What waited is told the decision now; False when another worker told it."""
    return Approval.objects.filter(pk=approval.pk, is_done=False).update(is_done=True) == 1
