"""Writing down what was used. A line without a price is counted, not priced: its `usd` stays null, never 0.

All writers of a team's money hold the team's row, and take it last: after the rows of jobs, evaluations and rollouts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from rftstudio.core.errors import Conflict, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage import closing, periods, scopes
from rftstudio.usage.models import Category, LedgerLine, MonthSum, Reservation, Unit, UsageRecord
from rftstudio.usage.prices import PriceBook

DUST = Decimal("1e-8")
_CHUNK = 500
_CATEGORY = {
    Unit.TRAINING_SECOND: Category.TRAINING,
    Unit.GPU_SECOND: Category.TRAINING,
    Unit.STORAGE_GB_DAY: Category.STORAGE,
}


@dataclass(frozen=True)
class Usage:
    """What one source used of one unit. `source` is the natural key: a replay of the same work changes no sum."""

    source: str
    unit: str
    subject: str
    quantity: Decimal | int
    at: datetime
    batch_source: str = ""
    category: str = ""
    note: str = ""


def team_lock(team: Team) -> None:
    """Hold the team's money until the end of the transaction. Rows that point at the team may still be added."""
    Team.objects.select_for_update(no_key=True).only("pk").get(pk=team.pk)


def usage_record(
    *,
    team: Team,
    source: str,
    unit: str,
    subject: str,
    quantity: Decimal | int,
    at: datetime,
    batch_source: str = "",
    category: str = "",
    note: str = "",
) -> UsageRecord:
    """Note what was used, priced at that moment; the first record of a source stands."""
    usage = Usage(source, unit, subject, quantity, at, batch_source, category, note)
    usage_record_many(team=team, usages=[usage])
    return UsageRecord.objects.get(source=source)


@transaction.atomic
def usage_record_many(*, team: Team, usages: Iterable[Usage]) -> dict[str, Decimal | None]:
    """Note many at once; returns each source's dollars (None: no price), whether or not it was noted before."""
    wanted = {usage.source: usage for usage in reversed(list(usages))}
    if not wanted:
        return {}
    team_lock(team)
    known = _known(list(wanted))
    fresh = [usage for source, usage in reversed(wanted.items()) if source not in known]
    holders = _holders(team, {usage.batch_source for usage in fresh})
    book, open_from = PriceBook(), closing.books_open_from(team=team)
    lines = [_line(team, usage, book, holders.get(usage.batch_source), open_from) for usage in fresh]
    lines_add(team, lines)
    return known | {line.source: line.usd for line in lines}


def _known(sources: list[str]) -> dict[str, Decimal | None]:
    found: dict[str, Decimal | None] = {}
    for start in range(0, len(sources), _CHUNK):
        rows = LedgerLine.objects.filter(source__in=sources[start : start + _CHUNK])
        found.update(rows.values_list("source", "usd"))
    return found


def _holders(team: Team, sources: set[str]) -> dict[str, Reservation]:
    asked = [source for source in sources if source]
    return {row.source: row for row in Reservation.objects.filter(team=team, source__in=asked)} if asked else {}


def _line(
    team: Team, usage: Usage, book: PriceBook, held: Reservation | None, open_from: datetime | None
) -> LedgerLine:
    """Priced at the moment of use; booked then too, or at the start of the first open month."""
    quantity = Decimal(usage.quantity)
    price = book.at(usage.unit, usage.subject[:200], usage.at)
    return LedgerLine(
        team=team,
        source=usage.source,
        batch_source=usage.batch_source,
        category=usage.category or _CATEGORY.get(usage.unit, Category.EVALUATION if held else Category.OTHER),
        note=usage.note[:200],
        unit=usage.unit,
        subject=usage.subject[:200],
        quantity=quantity,
        unit_usd=price,
        usd=None if price is None else (price * quantity).quantize(DUST),
        reservation=held,
        user_id=held.user_id if held else None,
        api_key_id=held.api_key_id if held else None,
        at=closing.booked_at(usage.at, open_from),
    )


def lines_add(team: Team, lines: list[LedgerLine]) -> None:
    """Add lines and what they come to, under the team's lock, which the caller holds."""
    if not lines:
        return
    LedgerLine.objects.bulk_create(lines, batch_size=_CHUNK)
    spent = [line for line in lines if line.kind in LedgerLine.SPEND]
    _add_months(team, spent)
    held = {line.reservation_id: line.reservation for line in spent if line.reservation}
    for pk, reservation in held.items():
        reservation.spent_usd += sum(line.usd or 0 for line in spent if line.reservation_id == pk)
        reservation.save(update_fields=["spent_usd", "updated_at"])


def _add_months(team: Team, lines: list[LedgerLine]) -> None:
    sums: dict[tuple[str, date], list] = {}
    zone = periods.zone_of(team)
    for line in lines:
        month = periods.month_of(line.at, zone)
        for scope in scopes.scopes_of(user_id=line.user_id, api_key_id=line.api_key_id):
            one = sums.setdefault((scope, month), [Decimal(0), 0])
            one[0] += line.usd or 0
            one[1] += _unpriced(line)
    rows = {
        (row.scope, row.month): row
        for row in MonthSum.objects.filter(
            team=team, scope__in={scope for scope, _ in sums}, month__in={month for _, month in sums}
        )
    }
    for (scope, month), (usd, unpriced) in sums.items():
        row = rows.get((scope, month)) or MonthSum(team=team, scope=scope, month=month)
        row.usd, row.unpriced = Decimal(row.usd) + usd, max(0, row.unpriced + unpriced)
        row.save()


def _unpriced(line: LedgerLine) -> int:
    """How a line changes the count of lines without a price: a correction of one gives it its price."""
    if line.is_unpriced:
        return 1
    return -1 if line.corrects is not None and line.corrects.is_unpriced and line.number_of_corrections == 1 else 0


@transaction.atomic
def usage_correct(*, actor: Actor, line: LedgerLine, usd: Decimal, note: str) -> LedgerLine:
    """Put a line right by another: `usd` is what it should have come to. History is not touched."""
    check_can(actor, Permission.BUDGET_APPROVE, team=line.team)
    if line.kind != LedgerLine.Kind.SPENT:
        raise Conflict("Only a counted amount can be corrected.", fix="Correct the amount itself, not a hold.")
    if not note.strip():
        raise UserError("A correction needs a reason.", where="note", fix="Say what was wrong with the amount.")
    if not usd.is_finite() or usd < 0:
        raise UserError("An amount cannot be below zero.", where="usd", fix="Write what it should have come to.")
    team_lock(line.team)
    correction = correction_of(line, usd.quantize(DUST), note=note.strip())
    if correction is None:
        raise Conflict("The line comes to that amount already.", where="usd")
    lines_add(line.team, [correction])
    audit(actor, "ledger.corrected", line, source=line.source, usd=str(usd), note=note.strip())
    return correction


def correction_of(line: LedgerLine, usd: Decimal, *, note: str) -> LedgerLine | None:
    """The line that brings another to `usd`; None when it is there already. Not written yet."""
    before = list(line.corrections.order_by("id"))
    change = usd - (line.usd or 0) - sum(one.usd for one in before)
    if not change and (line.usd is not None or before):
        return None
    made = LedgerLine(
        team=line.team, kind=LedgerLine.Kind.CORRECTED, source=f"{line.source[:140]}/correction/{len(before) + 1}",
        batch_source=line.batch_source, category=line.category, note=note[:200], unit=line.unit, subject=line.subject,
        usd=change, corrects=line, reservation=line.reservation, user_id=line.user_id, api_key_id=line.api_key_id,
        at=closing.booked_at(line.at, closing.books_open_from(team=line.team)),
    )  # fmt: skip
    made.number_of_corrections = len(before) + 1
    return made


@transaction.atomic
def sums_count_again(*, team: Team) -> int:
    """Count the months and reservations from the lines again; returns how many sums were wrong. For a new time zone."""
    team_lock(team)
    before = {(row.scope, row.month): (row.usd, row.unpriced) for row in MonthSum.objects.filter(team=team)}
    MonthSum.objects.filter(team=team).delete()
    lines = LedgerLine.objects.filter(team=team, kind__in=LedgerLine.SPEND).select_related("corrects").order_by("id")
    counts: dict[int, int] = {}
    chunk: list[LedgerLine] = []
    for line in lines.iterator(chunk_size=2000):
        if line.corrects_id:
            counts[line.corrects_id] = line.number_of_corrections = counts.get(line.corrects_id, 0) + 1
        chunk.append(line)
        if len(chunk) == 2000:
            _add_months(team, chunk)
            chunk = []
    _add_months(team, chunk)
    after = {(row.scope, row.month): (row.usd, row.unpriced) for row in MonthSum.objects.filter(team=team)}
    return len({key for key in before.keys() | after.keys() if before.get(key) != after.get(key)})


@transaction.atomic
def lines_price(*, team: Team, now: datetime | None = None) -> int:
    """Price what was counted without one, where a price for its moment is known by now. Returns how many lines."""
    team_lock(team)
    open_lines = LedgerLine.objects.filter(team=team, kind=LedgerLine.Kind.SPENT, usd=None, corrections=None)
    book = PriceBook()
    made = []
    for line in open_lines.select_related("reservation", "team").order_by("id")[:5000]:
        price = book.at(line.unit, line.subject, line.at)
        if price is not None:
            made.append(correction_of(line, (price * line.quantity).quantize(DUST), note="priced later"))
    lines_add(team, [line for line in made if line])
    return len(made)


def lines_price_everywhere() -> int:
    """The same for each team that has such lines of this month or the last; asked after a new price."""
    since = periods.last_month(timezone.now().date())
    teams = Team.objects.filter(
        pk__in=MonthSum.objects.filter(unpriced__gt=0, scope=scopes.TEAM, month__gte=since).values("team")
    )
    return sum(lines_price(team=team) for team in teams)
