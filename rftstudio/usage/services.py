"""Writes of what was used. A record without a price is counted, not priced: its `usd` stays null, never 0."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from rftstudio.teams.models import Team
from rftstudio.usage.models import UsageRecord
from rftstudio.usage.selectors import price_at


@dataclass(frozen=True)
class Usage:
    """What one source used of one unit. `source` is the natural key: a replay of the same work changes no sum."""

    source: str
    unit: str
    subject: str
    quantity: Decimal | int
    at: datetime
    batch_source: str = ""


def usage_record(
    *, team: Team, source: str, unit: str, subject: str, quantity: Decimal | int, at: datetime, batch_source: str = ""
) -> UsageRecord:
    """Note what was used, priced at that moment; the first record of a source stands."""
    usage_record_many(team=team, usages=[Usage(source, unit, subject, quantity, at, batch_source)])
    return UsageRecord.objects.get(source=source)


def usage_record_many(*, team: Team, usages: Iterable[Usage]) -> dict[str, Decimal | None]:
    """Note many at once; returns each source's dollars (None: no price), whether or not it was noted before."""
    prices: dict[tuple[str, str], Decimal | None] = {}
    rows = []
    for usage in usages:
        key = (usage.unit, usage.subject)
        if key not in prices:  # one moment for all of a call: they lie seconds apart
            prices[key] = price_at(unit=usage.unit, subject=usage.subject, at=usage.at)
        quantity = Decimal(usage.quantity)
        usd = None if prices[key] is None else (prices[key] * quantity).quantize(Decimal("1e-8"))
        rows.append(
            UsageRecord(
                team=team,
                source=usage.source,
                batch_source=usage.batch_source,
                unit=usage.unit,
                subject=usage.subject[:200],
                quantity=quantity,
                usd=usd,
                at=usage.at,
            )
        )
    UsageRecord.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)
    return {row.source: row.usd for row in rows}
