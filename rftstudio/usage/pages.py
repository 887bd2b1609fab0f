"""What the pages of costs show: values made ready to read. One function for each part, used by page and fragment."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.safestring import mark_safe

from rftstudio.core import drawings
from rftstudio.core.show import show_money
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, can
from rftstudio.usage import charts, periods, quotas, reports, selectors
from rftstudio.usage.models import Approval, Category, LedgerLine, Price, Reservation
from rftstudio.usage.periods import Period
from rftstudio.usage.prices import MEASURES, exact_usd, how_counted, sold_price
from rftstudio.usage.reservations import approval_concern

_TONES = ("ink", "c2", "c3", "c4", "c1", "c5")
_PLACES = {"ftjob-": "jobs:job-detail", "evalrun_": "evaluations:evaluation-detail"}


def thing_url(team: Team, source: str) -> str:
    """The page of what was paid for, found by the prefix of its id; rooms above this one are known by address only."""
    for prefix, name in _PLACES.items():
        if source.startswith(prefix):
            try:
                return reverse(name, args=[team.slug, source])
            except NoReverseMatch:
                return ""
    return ""


def today_of(team: Team):
    return periods.day_of(timezone.now(), periods.zone_of(team))


# -- the page ---------------------------------------------------------------------------------------------------------


def cost_context(actor: Actor, query: Mapping[str, str]) -> dict[str, Any]:
    """Totals first; the chart is asked for on load."""
    team = actor.team
    today = today_of(team)
    period = periods.period_of(query, today)
    spend = reports.spend_of(team=team, period=period)
    budget = selectors.budget_get(team=team)
    by = query.get("by") if query.get("by") in reports.BY else "category"
    return {
        "period": period,
        "segments": _segments(period, today),
        "by": by,
        "is_now": period.first <= today <= period.last,
        "figures": _figures(team, period, spend, budget),
        "shares": (shares := shares_of(spend)),
        "share_bar": mark_safe(  # noqa: S308 our own drawing of numbers
            drawings.stacked_bar([(float(one["share"]), one["tone"]) for one in shares], 1.0)
        ),
        "budget": budget,
        "has_lines": LedgerLine.objects.filter(team=team).exists(),
        "unpriced": reports.unpriced_subjects(team=team),
        "stopped": selectors.stopped_by(team=team),
        "zone": spend.zone,
        **approvals_context(actor),
        **quotas_context(actor),
        "lines": line_rows(team, reports.ledger_list(team=team, query={})[:8]),
        "may_correct": False,
    }


def _segments(period: Period, today) -> list[dict[str, Any]]:
    choices = [Period("day", today, today), periods.month_period(today), periods.year_period(today.year)]
    if period not in choices:
        choices = [period if period.kind == one.kind else one for one in choices]
    return [
        {"word": one.words if one == period else one.kind.capitalize(), "query": one.query, "is_current": one == period}
        for one in choices
    ]


def _figures(team: Team, period: Period, spend: reports.Spend, budget: selectors.Budget) -> list[dict[str, str]]:
    before = reports.spend_of(team=team, period=period.shifted(-1))
    counts = reports.held_counts(team=team)
    held_for = [
        f"{n} {kind}{'' if n == 1 else 's'}"
        for kind in (Reservation.Kind.JOB.value, Reservation.Kind.EVALUATION.value)
        if (n := counts.get(kind))
    ]
    left = show_money(budget.left) if budget.left is None or budget.left >= 0 else f"over by {show_money(budget.over)}"
    figures = [
        {"label": f"Spent in {period.words}", "value": show_money(spend.usd),
         "note": f"{period.shifted(-1).words}: {show_money(before.usd)}"},
        {"label": "Held for running work", "value": show_money(budget.held), "note": ", ".join(held_for) or "nothing runs"},
        {"label": "Left this month", "value": left,
         "note": f"of {show_money(budget.quota)}" if budget.quota is not None else "no quota set"},
    ]  # fmt: skip
    if forecast := reports.forecast_of(team=team):
        figures.append({
            "label": f"By {forecast.last.day} {forecast.last:%B}", "value": f"near {show_money(forecast.usd)}",
            "note": f"9 in 10: {show_money(forecast.low)} to {show_money(forecast.high)}",
        })  # fmt: skip
    else:
        figures.append({"label": "By the end of the month", "value": "–", "note": "four days of spend are needed"})
    return figures


def shares_of(spend: reports.Spend) -> list[dict[str, Any]]:
    """What the money went to, largest first, with tones for a bar."""
    return [
        {"word": str(Category(name).label).lower(), "usd": usd, "share": usd / spend.usd, "tone": _TONES[place % 6]}
        for place, (name, usd) in enumerate(spend.by_category().items())
        if usd > 0
    ]


def spend_context(actor: Actor, query: Mapping[str, str]) -> dict[str, Any]:
    """Chart and table, regrouped as wanted."""
    team = actor.team
    period = periods.period_of(query, today_of(team))
    by = query.get("by") if query.get("by") in reports.BY else "category"
    spend = reports.spend_of(team=team, period=period, by=by)
    ledger_url = reverse("usage:ledger-list", args=[team.slug])
    points = reports.points_of(spend, team=team, by=by)
    most = max((row.usd for row in spend.rows), default=Decimal(0))
    columns = list(spend.by_category())
    return {
        "team": team,
        "period": period,
        "by": by,
        "head": {"category": "Purpose"}.get(by, by.capitalize()),
        "choices": list(reports.BY.items()),
        "figure": charts.spend_chart(spend, link=charts.ledger_link(ledger_url), today=today_of(team))
        if spend.rows
        else None,
        "table": charts.spend_table(spend),
        "has_points": by == "job",
        "columns": [str(Category(name).label) for name in columns] if by != "category" else [],
        "rows": [
            {
                "label": row.label,
                "tone": f"c{place % 6 + 1}" if place < reports.MOST_SERIES else "ink-3",
                "usd": row.usd,
                "share": float(row.usd / most) if most > 0 else 0.0,
                "part": float(row.usd / spend.usd) if spend.usd > 0 else None,
                "cells": [row.by_category.get(name) for name in columns] if by != "category" else [],
                "a_point": reports.usd_a_point(row, points),
                "url": f"{ledger_url}?{period.query}&{row.query}",
            }
            for place, row in enumerate(spend.rows[:50])
        ],
        "zone": spend.zone,
        "usd": spend.usd,
    }


# -- approvals and quotas ---------------------------------------------------------------------------------------------


def approvals_context(actor: Actor) -> dict[str, Any]:
    may = can(actor, Permission.BUDGET_APPROVE)
    waiting = selectors.approval_list(team=actor.team) if may else Approval.objects.none()
    return {"team": actor.team, "may_approve": may, "approvals": [approval_line(one) for one in waiting]}


def approval_line(approval: Approval) -> dict[str, Any]:
    """A request with what it would leave, and why it needs a reason."""
    budget = selectors.budget_get(team=approval.team)
    after = None if budget.left is None else budget.left - approval.amount_usd
    return {
        "approval": approval,
        "who": approval.asked_by or (f"key {approval.api_key.name}" if approval.api_key else "RFT Studio"),
        "after": after,
        "passes_by": -after if after is not None and after < 0 else None,
        "concern": approval_concern(approval),
        "url": thing_url(approval.team, approval.source),
    }


def quotas_context(actor: Actor) -> dict[str, Any]:
    lines = quotas.quota_lines(team=actor.team)
    return {
        "quota_lines": [line for line in lines if line.quota.usd_month is not None],
        "count_lines": [words for line in lines if (words := count_words(line))],
        "over_lines": [line for line in lines if line.budget.over],
        "may_set_quota": can(actor, Permission.BUDGET_APPROVE),
    }


def count_words(line: quotas.QuotaLine) -> str:
    """The limits that are no monthly sum, in one sentence."""
    quota, parts = line.quota, []
    if quota.usd_job is not None:
        parts.append(f"{show_money(quota.usd_job)} a job")
    if quota.approval_above_usd is not None:
        parts.append(f"an owner is asked above {show_money(quota.approval_above_usd)}")
    if quota.jobs_at_once is not None:
        parts.append(f"{line.jobs} of {quota.jobs_at_once} jobs at once")
    if quota.rollouts_day is not None:
        parts.append(f"{line.rollouts:,} of {quota.rollouts_day:,} rollouts today")
    if quota.storage_gb is not None:
        parts.append(f"{quota.storage_gb.normalize():f} GB of storage")
    whose = quota.words[0].upper() + quota.words[1:]
    return f"{whose}: {', '.join(parts)}." if parts else ""


# -- ledger -----------------------------------------------------------------------------------------------------------


def line_rows(team: Team, lines: Iterable[LedgerLine]) -> list[dict[str, Any]]:
    return [line_row(team, line) for line in lines]


def line_row(team: Team, line: LedgerLine) -> dict[str, Any]:
    """One amount, what it was for, and its arithmetic."""
    kind, label = LedgerLine.Kind(line.kind), line.reservation.label if line.reservation else ""
    who = line.user or (f"key {line.api_key.name}" if line.api_key else "")
    row = {
        "line": line,
        "url": thing_url(team, line.batch_source),
        "for": line.note or f"{label or 'A trial'}{', ' + line.subject if line.subject else ''}",
        "how": how_counted(line.unit, line.quantity, line.unit_usd),
        "usd": line.usd,
        "amount": exact_usd(line.usd),
        "who": who,
        "state": "info",
        "word": "counted",
        "glyph": "check",
    }
    if line.is_unpriced:
        return row | {"state": "bad", "word": "counted, not priced", "glyph": ""}
    if kind == LedgerLine.Kind.HELD:
        verb = "launched" if line.source.endswith("/hold/1") else "goes on"
        return row | {"for": f"{label} {verb}", "how": line.note, "state": "held", "word": "held", "glyph": ""}
    if kind == LedgerLine.Kind.RETURNED:
        return row | {"for": f"{label}, not spent", "how": line.note, "word": "returned", "glyph": "swap"}
    if kind == LedgerLine.Kind.CORRECTED:
        of = f"line {line.corrects_id}"
        return row | {"for": f"{label or line.subject}, {of}", "how": line.note, "word": "corrected", "glyph": "edit"}
    return row


def ledger_context(actor: Actor, query: Mapping[str, str], most: int) -> dict[str, Any]:
    team = actor.team
    rows = reports.ledger_list(team=team, query=query)
    before = query.get("before", "")
    if before.isascii() and before.isdigit():
        rows = rows.filter(id__lt=int(before[:18]))
    page = list(rows[: most + 1])
    kept = {name: query[name] for name in reports.FILTERS if query.get(name)}
    return {
        "lines": line_rows(team, page[:most]),
        "next_url": f"?{urlencode(kept | {'before': page[most - 1].pk})}" if len(page) > most else "",
        "first_url": f"?{urlencode(kept)}" if before else "",
        "chips": _chips(team, kept),
        "csv_url": f"{reverse('usage:ledger-export', args=[team.slug])}?{urlencode(kept)}",
        "unknown": sorted(set(query) - {*reports.FILTERS, "before", "by"}),
        "kinds": LedgerLine.Kind.choices,
        "categories": Category.choices,
        "kept": kept,
        "may_correct": can(actor, Permission.BUDGET_APPROVE),
        "zone": periods.zone_of(team).key,
    }


def _chips(team: Team, kept: dict[str, str]) -> list[dict[str, str]]:
    words = {"for": "for", "kind": "state", "category": "purpose", "subject": "model", "member": "member", "key": "key",
             "unpriced": "only", "day": "day", "month": "month", "year": "year", "from": "from", "to": "to"}  # fmt: skip
    chips = []
    for name, value in kept.items():
        shown = "not priced" if name == "unpriced" else "none" if value == reports.NONE else value
        if name == "for":
            found = Reservation.objects.filter(team=team, source=value).first()
            shown = found.label if found else shown
        rest = {key: one for key, one in kept.items() if key != name}
        chips.append({"label": words[name], "value": shown, "remove_url": f"?{urlencode(rest)}"})
    return chips


# -- prices -----------------------------------------------------------------------------------------------------------


def price_rows(now=None) -> list[dict[str, Any]]:
    """Prices as they are sold, newest start first within a subject; which one counts now."""
    now = now or timezone.now()
    rows, seen = [], set()
    for price in Price.objects.order_by("unit", "subject", "-valid_from").select_related("created_by"):
        key = (price.unit, price.subject)
        is_now = price.valid_from <= now and key not in seen
        if is_now:
            seen.add(key)
        rows.append({"price": price, "sold": exact_usd(sold_price(price.unit, price.usd)), "sold_by": MEASURES[price.unit].sold_by,
                     "state": "now" if is_now else "later" if price.valid_from > now else "ended"})  # fmt: skip
    return rows
