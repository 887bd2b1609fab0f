"""Sums follow lines: replayed, out of order, corrected, priced later, counted again."""

import itertools
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from rftstudio.core.errors import Conflict, NotAllowed, UserError
from rftstudio.usage import scopes, selectors
from rftstudio.usage.models import LedgerLine, MonthSum, Reservation, UsageRecord
from rftstudio.usage.services import (
    Usage,
    lines_price,
    reservation_hold,
    sums_count_again,
    usage_correct,
    usage_record,
    usage_record_many,
)
from tests.factories.usage import PriceFactory

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)


def seconds(source: str, quantity, at=NOON, **more) -> Usage:
    return Usage(source, "training_second", "trl", quantity, at, **more)


def spent(team, scope="team", month=date(2026, 6, 1)) -> Decimal:
    row = MonthSum.objects.filter(team=team, scope=scope, month=month).first()
    return row.usd if row else Decimal(0)


def test_usage_adds_up_exactly(team):
    PriceFactory(usd="0.1")
    usage_record_many(team=team, usages=[seconds(f"s{n}", 1) for n in range(10)])
    assert spent(team) == Decimal("1.00")


def test_usage_replayed_twice_and_out_of_order_changes_no_sum(team, member):
    PriceFactory(usd="0.37")
    reservation_hold(actor=member, source="ftjob-1", kind="job", label="Job 1", amount=50)
    messages = [seconds(f"step/{n}", n + 1, batch_source="ftjob-1") for n in range(12)]
    usage_record_many(team=team, usages=messages)
    before = spent(team), spent(team, scopes.of_member(member.user)), Reservation.objects.get().spent_usd
    again = messages * 2
    random.Random(5).shuffle(again)
    for some in (
        itertools.batched(again, 5) if hasattr(itertools, "batched") else [again[n : n + 5] for n in range(0, 24, 5)]
    ):
        usage_record_many(team=team, usages=some)
    after = spent(team), spent(team, scopes.of_member(member.user)), Reservation.objects.get().spent_usd
    assert before == after == (Decimal("28.86"),) * 3
    assert UsageRecord.objects.count() == 12


def test_usage_twice_in_one_call_counts_once(team):
    PriceFactory()
    answer = usage_record_many(team=team, usages=[seconds("s", 2), seconds("s", 5)])
    assert answer == {"s": Decimal(2)}
    assert spent(team) == 2


def test_usage_of_a_known_source_answers_what_was_written_first(team):
    PriceFactory()
    usage_record_many(team=team, usages=[seconds("s", 2)])
    assert usage_record_many(team=team, usages=[seconds("s", 9), seconds("t", 1)]) == {"s": Decimal(2), "t": Decimal(1)}


def test_usage_falls_into_the_month_of_the_teams_calendar(team):
    team.time_zone = "Asia/Kolkata"
    team.save()
    PriceFactory()
    last_evening = datetime(2026, 6, 30, 18, 29, 59, tzinfo=UTC)  # 23:59:59 there
    next_day = datetime(2026, 6, 30, 18, 30, tzinfo=UTC)
    usage_record_many(team=team, usages=[seconds("a", 1, last_evening), seconds("b", 2, next_day)])
    assert (spent(team), spent(team, month=date(2026, 7, 1))) == (1, 2)


def test_usage_of_one_call_is_priced_each_at_its_own_moment(team):
    PriceFactory(usd=1)
    PriceFactory(usd=2, valid_from=NOON)
    usage_record_many(team=team, usages=[seconds("a", 1, NOON.replace(hour=11)), seconds("b", 1, NOON)])
    assert spent(team) == 3


def test_line_without_price_is_counted_and_priced_later_by_another_line(team):
    line = usage_record(**vars(seconds("s", 4)), team=team)
    assert line.is_unpriced
    assert MonthSum.objects.get().unpriced == 1
    assert selectors.source_spent(source="") is None
    PriceFactory(usd="0.5")
    assert lines_price(team=team) == 1
    assert lines_price(team=team) == 0
    assert (spent(team), MonthSum.objects.get().unpriced) == (2, 0)
    assert LedgerLine.objects.get(kind="corrected").note == "priced later"
    assert LedgerLine.objects.get(kind="spent").usd is None


def test_correction_is_a_new_line_and_moves_the_sums(team, owner):
    PriceFactory()
    line = usage_record(**vars(seconds("s", 4)), team=team)
    usage_correct(actor=owner, line=line, usd=Decimal("1.50"), note="the machine stood still")
    usage_correct(actor=owner, line=line, usd=Decimal("2.00"), note="but not for that long")
    assert [one.usd for one in LedgerLine.objects.order_by("id")] == [4, Decimal("-2.5"), Decimal("0.5")]
    assert spent(team) == 2
    assert sums_count_again(team=team) == 0


def test_correction_gives_a_price_to_a_line_without_one(team, owner):
    line = usage_record(**vars(seconds("s", 4)), team=team)
    usage_correct(actor=owner, line=line, usd=Decimal(0), note="ran on our own machine")
    usage_correct(actor=owner, line=line, usd=Decimal(1), note="electricity")
    assert (spent(team), MonthSum.objects.get().unpriced) == (1, 0)
    assert sums_count_again(team=team) == 0


@pytest.mark.parametrize(
    ("usd", "note", "error"),
    [("1", " ", UserError), ("NaN", "x", UserError), ("-1", "x", UserError), ("4", "x", Conflict)],
)
def test_correction_is_refused(team, owner, usd, note, error):
    PriceFactory()
    line = usage_record(**vars(seconds("s", 4)), team=team)
    with pytest.raises(error):
        usage_correct(actor=owner, line=line, usd=Decimal(usd), note=note)
    assert LedgerLine.objects.count() == 1


def test_correction_by_an_engineer_is_refused(team, member):
    line = usage_record(**vars(seconds("s", 4)), team=team)
    with pytest.raises(NotAllowed):
        usage_correct(actor=member, line=line, usd=Decimal(1), note="x")


def test_sums_counted_again_follow_a_new_time_zone(team):
    PriceFactory()
    usage_record_many(team=team, usages=[seconds("a", 1, datetime(2026, 6, 30, 20, tzinfo=UTC)), seconds("b", 2)])
    assert sums_count_again(team=team) == 0
    team.time_zone = "Asia/Kolkata"
    team.save()
    assert sums_count_again(team=team) == 2
    assert (spent(team), spent(team, month=date(2026, 7, 1))) == (2, 1)
