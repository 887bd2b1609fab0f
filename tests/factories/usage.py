"""Makes prices, quotas and holds."""

from datetime import UTC, datetime
from decimal import Decimal

import factory
from factory.django import DjangoModelFactory

from rftstudio.usage.models import Price, Quota, Unit
from tests.factories.teams import TeamFactory


class PriceFactory(DjangoModelFactory):
    """A price that has always been: one dollar for a second of training, unless told otherwise."""

    class Meta:
        model = Price

    unit = Unit.TRAINING_SECOND
    subject = "*"
    usd = Decimal(1)
    valid_from = datetime(2020, 1, 1, tzinfo=UTC)


class QuotaFactory(DjangoModelFactory):
    class Meta:
        model = Quota

    team = factory.SubFactory(TeamFactory)
    usd_month = Decimal("5.00")
