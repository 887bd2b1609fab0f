"""The console's front page: spend over all teams, who is near a limit, what waits for a decision, stop switches."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from rftstudio.teams.models import Team
from rftstudio.usage import charts, pages, periods, quotas, reports, selectors
from rftstudio.usage.models import Approval, StopSwitch

BY = {"team": "by team", "job": "by job", "model": "by model", "member": "by member", "category": "by purpose"}


def dashboard_context(query: Mapping[str, str]) -> dict[str, Any]:
    today = timezone.now().date()
    month = periods.period_of({"month": query.get("month", "")}, today)
    by = query.get("by") if query.get("by") in BY else "team"
    spend = reports.spend_of(team=None, period=month, by=by)
    points = reports.points_of(spend, team=None, by=by)
    teams = [_team_row(*row) for row in reports.spend_of_teams(period=month)]
    return {
        "month": month,
        "before": month.shifted(-1),
        "after": month.shifted(1) if month.last < today else None,
        "by": by,
        "choices": list(BY.items()),
        "spend": spend,
        "has_points": by in ("team", "job"),
        "figure": charts.spend_chart(spend, link=_lines_link(by), today=today),
        "table": charts.spend_table(spend),
        "rows": [
            {
                "row": row,
                "url": _lines_link(by)(row, None),
                "share": float(row.usd / spend.usd) if spend.usd > 0 else 0.0,
                "a_point": reports.usd_a_point(row, points),
            }
            for row in spend.rows[:30]
        ],
        "teams": teams,
        "forecast": reports.forecast_of(team=None),
        "held": sum((row["held"] for row in teams), Decimal(0)),
        "near": quotas.near_limits()[:20],
        "approvals": [pages.approval_line(one) for one in approvals_waiting()],
        "unpriced": reports.unpriced_subjects(),
        "switches": _switches(),
    }


#: How the list of ledger lines is asked for the lines of a row.
_LOOKUPS = {
    "team": ("team__id__exact",),
    "job": ("batch_source",),
    "model": ("subject",),
    "member": ("user__id__exact", "api_key__id__exact"),
    "category": ("category__exact",),
}


def _lines_link(by: str) -> charts.Link:
    url = reverse("admin:usage_ledgerline_changelist")

    def link(row: reports.SpendRow, day: date | None) -> str:
        query = {name: value for name, value in zip(_LOOKUPS[by], row.key, strict=False) if value not in (None, "")}
        if day is not None:
            query["at__date"] = str(day)
        return f"{url}?{urlencode(query)}"

    return link


def approvals_waiting():
    rows = Approval.objects.filter(status=Approval.Status.WAITING).select_related("team", "asked_by", "api_key")
    return rows.order_by("id")[:50]


def _team_row(team: Team, spent: Decimal, held: Decimal, quota: Decimal | None) -> dict[str, Any]:
    left = None if quota is None else quota - spent - held
    return {"team": team, "spent": spent, "held": held, "quota": quota, "left": left,
            "over": -left if left is not None and left < 0 else None}  # fmt: skip


def _switches() -> dict[str, Any]:
    switches = {switch.team_id: switch for switch in StopSwitch.objects.select_related("team", "changed_by")}
    return {
        "everywhere": switches.get(None),
        "on": [switch for key, switch in switches.items() if key is not None and switch.is_on],
        "teams": Team.objects.order_by("name")[:200],
        "stopped": selectors.stopped_everywhere(),
    }
