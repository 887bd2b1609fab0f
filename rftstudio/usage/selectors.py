"""Reads of prices."""

from datetime import datetime
from decimal import Decimal

from django.db.models import Q

from rftstudio.usage.models import Price


def price_at(*, unit: str, subject: str, at: datetime) -> Decimal | None:
    """Dollars for one unit at that moment: the subject's own price before the one for all (`*`); None when there is none."""
    valid = Price.objects.filter(Q(subject=subject) | Q(subject="*"), unit=unit, valid_from__lte=at)
    prices = {price.subject: price.usd for price in valid.order_by("valid_from")}  # the newest of each stays
    return prices.get(subject, prices.get("*"))
