"""Usage records: idempotent by source, priced by validity, null without a price."""

from datetime import UTC, datetime
from decimal import Decimal

from rftstudio.usage.models import Price, Unit, UsageRecord
from rftstudio.usage.selectors import price_at
from rftstudio.usage.services import usage_record

JUNE = datetime(2026, 6, 1, tzinfo=UTC)


def price(subject, usd, month):
    Price.objects.create(
        unit=Unit.OUTPUT_TOKEN, subject=subject, usd=usd, valid_from=datetime(2026, month, 1, tzinfo=UTC)
    )


def used(team, source="s", **options):
    given = {"unit": Unit.OUTPUT_TOKEN, "subject": "m", "quantity": 1000, "at": JUNE, **options}
    return usage_record(team=team, source=source, **given)


def test_price_is_the_newest_that_is_valid_and_the_subjects_own(team):
    assert price_at(unit=Unit.OUTPUT_TOKEN, subject="m", at=JUNE) is None
    price("*", "0.9", 1)
    assert price_at(unit=Unit.OUTPUT_TOKEN, subject="m", at=JUNE) == Decimal("0.9")
    price("m", "0.1", 2)
    price("m", "0.2", 6)
    price("m", "0.3", 7)
    assert price_at(unit=Unit.OUTPUT_TOKEN, subject="m", at=JUNE) == Decimal("0.2")
    assert price_at(unit=Unit.INPUT_TOKEN, subject="m", at=JUNE) is None


def test_usage_is_priced_exactly(team):
    price("m", "0.000001", 1)
    assert used(team).usd == Decimal("0.001")


def test_usage_without_price_is_null_not_zero(team):
    assert used(team).usd is None


def test_usage_of_the_same_source_counts_once(team):
    used(team)
    used(team, quantity=5)
    assert UsageRecord.objects.get().quantity == 1000
