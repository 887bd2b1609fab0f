"""Money: Decimal USD. Parsing that refuses what is not plain money, and formatting for people."""

import re
from decimal import ROUND_HALF_UP, Decimal

from rftstudio.core.errors import UserError

CENT = Decimal("0.01")
_PLAIN = re.compile(r"[0-9]{1,10}(\.[0-9]{1,2})?")


def parse_usd(text: str, *, where: str = "amount") -> Decimal:
    """Positive dollars with at most two decimals, in plain digits; anything else is a UserError naming the field."""
    plain = text.strip()
    if not _PLAIN.fullmatch(plain) or not Decimal(plain):
        raise UserError(f"{text!r} is not an amount.", where=where, fix="Write dollars above zero, as 12 or 12.50.")
    return Decimal(plain).quantize(CENT)


def show_usd(value: Decimal | None) -> str:
    """`$1,234.50`; small sums keep four decimals; a dash when unknown, never $0."""
    if value is None:
        return "–"
    places = Decimal("0.0001") if 0 < abs(value) < CENT else CENT
    return f"${value.quantize(places, ROUND_HALF_UP):,}"
