"""The ledger as CSV, line by line, so that a year of it needs no memory."""

import csv
from collections.abc import Iterator

from django.db.models import QuerySet

from rftstudio.core.show import show_cell
from rftstudio.usage.models import LedgerLine
from rftstudio.usage.periods import zone_of

HEAD = ("line", "at", "state", "purpose", "for", "note", "unit", "subject", "quantity", "usd_per_unit", "usd", "corrects",
        "member", "key")  # fmt: skip


class _Echo:
    def write(self, text: str) -> str:
        return text


def ledger_csv(rows: QuerySet[LedgerLine], team) -> Iterator[str]:
    """Times are of the team's calendar, with their offset. An amount without a price is an empty cell."""
    writer, zone = csv.writer(_Echo()), zone_of(team)
    yield writer.writerow(HEAD)
    for line in rows.iterator(chunk_size=2000):
        yield writer.writerow([
            line.pk, line.at.astimezone(zone).isoformat(), line.kind, line.category, line.batch_source,
            show_cell(line.note), line.unit, show_cell(line.subject), _number(line.quantity), _number(line.unit_usd),
            _number(line.usd), line.corrects_id or "", show_cell(str(line.user or "")), line.api_key.public_id if line.api_key else "",
        ])  # fmt: skip


def _number(value) -> str:
    return "" if value is None else format(value.normalize(), "f")
