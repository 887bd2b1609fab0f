"""Figures of money: plain rows in, Plotly out. No queries."""

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from rftstudio.core.charts import SERIES, figure, token
from rftstudio.core.show import show_money
from rftstudio.usage.reports import Spend, SpendRow, folded

Link = Callable[[SpendRow, date], str]


def ledger_link(ledger_url: str) -> Link:
    """The page of the ledger that shows a row's lines of a day."""
    return lambda row, day: f"{ledger_url}?day={day}&{row.query}"


def spend_chart(spend: Spend, *, link: Link, today: date | None = None) -> dict[str, Any]:
    """Bars by day of the team's calendar, stacked by what the money was for. A bar opens its ledger lines."""
    days = [str(day) for day in spend.days]
    data = []
    for place, row in enumerate(folded(spend)):
        data.append(
            {
                "type": "bar",
                "name": row.label,
                "x": days,
                "y": [float(row.by_day.get(day, 0)) for day in spend.days],
                "marker": {"color": token(SERIES[place % len(SERIES)])},
                "customdata": [link(row, day) for day in spend.days],
                "hovertemplate": f"{row.label}<br>%{{x|%a %-d %b}}: $%{{y:,.2f}}<extra></extra>",
            }
        )
    layout: dict[str, Any] = {
        "barmode": "stack",
        "xaxis": {
            "type": "date",
            "title": f"day, {spend.zone}",
            "tickformat": "%-d %b",
            "range": [str(spend.days[0] - timedelta(days=1)) + "T12:00", days[-1] + "T12:00"],
        },
        "yaxis": {"tickprefix": "$", "rangemode": "tozero"},
    }
    if today is not None and spend.days[0] <= today < spend.days[-1]:
        layout["shapes"] = [
            {"type": "rect", "xref": "x", "yref": "paper", "x0": f"{today}T12:00", "x1": days[-1] + "T12:00", "y0": 0,
             "y1": 1, "layer": "below", "line": {"width": 0}, "fillcolor": token("line", 0.5)}
        ]  # fmt: skip
    return figure(data, layout, label=spend_words(spend))


def spend_words(spend: Spend) -> str:
    """The finding: the sum, its largest day, what most of it went to."""
    words = f"{show_money(spend.usd)} spent in {spend.period.words}, days cut in {spend.zone}"
    if not spend.usd:
        return words
    top = max(spend.days, key=spend.on)
    return f"{words}; most on {top.day} {top:%B} ({show_money(spend.on(top))}); most for {spend.rows[0].label}"


def spend_table(spend: Spend) -> dict[str, Any]:
    """Days and sums, for the table below the chart."""
    rows = folded(spend)
    return {
        "head": [f"Day ({spend.zone})", *[row.label for row in rows], "All"],
        "rows": [
            [
                f"{day.day} {day:%b}",
                *[show_money(row.by_day.get(day, Decimal(0))) for row in rows],
                show_money(spend.on(day)),
            ]
            for day in spend.days
        ],
    }
