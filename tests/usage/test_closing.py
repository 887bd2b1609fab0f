"""Closed months keep their sums; what comes late is booked in the first open one."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
import time_machine
from django.urls import reverse

from rftstudio.core.errors import Conflict, NotAllowed, UserError
from rftstudio.teams.models import AuditEvent
from rftstudio.usage import reports
from rftstudio.usage.models import LedgerLine, MonthSum
from rftstudio.usage.services import (
    Usage,
    lines_price,
    month_close,
    month_reopen,
    sums_count_again,
    time_zone_set,
    usage_correct,
    usage_record_many,
)
from tests.factories.usage import PriceFactory

MAY, JUNE = date(2026, 5, 1), date(2026, 6, 1)


@pytest.fixture(autouse=True)
def _in_june():
    with time_machine.travel(datetime(2026, 6, 10, 12, tzinfo=UTC), tick=False):
        yield


def used(team, source: str, at: datetime, quantity=5, subject="trl") -> LedgerLine:
    usage_record_many(team=team, usages=[Usage(source, "training_second", subject, quantity, at)])
    return LedgerLine.objects.get(source=source)


def sums(team) -> dict[date, Decimal]:
    return dict(MonthSum.objects.filter(team=team, scope="team").values_list("month", "usd"))


def test_late_usage_of_a_closed_month_is_priced_then_and_booked_in_the_open_one(team, owner):
    PriceFactory()
    PriceFactory(usd=2, valid_from=datetime(2026, 6, 1, tzinfo=UTC))
    used(team, "in time", datetime(2026, 5, 20, tzinfo=UTC))
    closing = month_close(actor=owner, month=MAY)
    assert (closing.usd, closing.unpriced) == (5, 0)
    late = used(team, "late", datetime(2026, 5, 31, 23, 59, tzinfo=UTC))
    assert (late.at, late.usd) == (datetime(2026, 6, 1, tzinfo=UTC), 5)
    assert sums(team) == {MAY: 5, JUNE: 5}
    assert sums_count_again(team=team) == 0
    assert used(team, "late", datetime(2026, 5, 31, 23, 59, tzinfo=UTC)) == late, "a replay changes nothing"


def test_correction_and_later_price_of_a_closed_month_are_booked_in_the_open_one(team, owner):
    PriceFactory(subject="trl")
    line, bare = (
        used(team, "a", datetime(2026, 5, 20, tzinfo=UTC)),
        used(team, "b", datetime(2026, 5, 21, tzinfo=UTC), 3, "x"),
    )
    month_close(actor=owner, month=MAY)
    usage_correct(actor=owner, line=line, usd=Decimal(4), note="half a step")
    PriceFactory(subject="x")
    assert lines_price(team=team) == 1
    assert sums(team) == {MAY: 5, JUNE: 2}
    assert bare.corrections.get().usd == 3


def test_month_is_closed_once_after_it_is_over_by_owners(team, owner, member, stranger):
    for actor, month, fault in ((member, MAY, NotAllowed), (owner, JUNE, UserError)):
        with pytest.raises(fault):
            month_close(actor=actor, month=month)
    month_close(actor=owner, month=MAY)
    with pytest.raises(Conflict, match="closed already"):
        month_close(actor=owner, month=MAY)
    with pytest.raises(Conflict, match="closed already"):
        month_close(actor=owner, month=date(2026, 4, 1))
    assert month_close(actor=stranger, month=MAY).team == stranger.team
    assert AuditEvent.objects.filter(team=team, verb="month.closed").count() == 1


def test_month_over_is_the_teams_own(team, owner):
    team.time_zone = "Pacific/Kiritimati"  # 14 hours ahead
    team.save()
    with time_machine.travel(datetime(2026, 6, 30, 10, tzinfo=UTC), tick=False):
        assert month_close(actor=owner, month=JUNE)


def test_closed_month_holds_the_time_zone(team, owner):
    month_close(actor=owner, month=MAY)
    with pytest.raises(Conflict, match="is closed in UTC"):
        time_zone_set(actor=owner, time_zone="Asia/Kolkata")


def test_last_closed_month_is_opened_again_with_a_reason(team, owner, member):
    month_close(actor=owner, month=date(2026, 4, 1))
    month_close(actor=owner, month=MAY)
    for actor, month, reason, fault in (
        (member, MAY, "x", NotAllowed), (owner, date(2026, 4, 1), "x", Conflict), (owner, MAY, " ", UserError),
    ):  # fmt: skip
        with pytest.raises(fault):
            month_reopen(actor=actor, month=month, reason=reason)
    month_reopen(actor=owner, month=MAY, reason="an invoice was missing")
    PriceFactory()
    assert used(team, "late", datetime(2026, 5, 20, tzinfo=UTC)).at.month == 5
    assert month_close(actor=owner, month=MAY).usd == 5


def test_page_of_months_closes_and_opens(team, owner, member, client_of):
    PriceFactory()
    used(team, "a", datetime(2026, 5, 20, tzinfo=UTC))
    used(team, "b", datetime(2026, 6, 2, tzinfo=UTC))
    url = reverse("usage:month-list", args=[team.slug])
    browser = client_of(owner)
    assert b"Close May at $5.00" in browser.get(url).content
    page = browser.post(reverse("usage:month-close", args=[team.slug]), {"month": "2026-05"}, follow=True)
    assert b"May 2026 is closed." in page.content
    assert [(line.month, line.is_closed) for line in reports.month_lines(team=team)] == [(JUNE, False), (MAY, True)]
    for month, words in (("2026-06", b"not over yet"), ("nonsense", b"There is no such month")):
        page = browser.post(reverse("usage:month-close", args=[team.slug]), {"month": month}, follow=True)
        assert words in page.content
    page = browser.post(
        reverse("usage:month-reopen", args=[team.slug]), {"month": "2026-05", "reason": "x"}, follow=True
    )
    assert b"May 2026 is open again." in page.content
    assert b"Close May" not in client_of(member).get(url).content
