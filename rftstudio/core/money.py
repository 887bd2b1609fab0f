"""Money: Decimal USD. Parsing that refuses what is not plain money, and formatting for people."""

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from rftstudio.core.errors import UserError

CENT = Decimal("0.01")


def parse_usd(text: str, *, where: str = "amount") -> Decimal:
    """Positive dollars with at most two decimals; anything else is a UserError naming the field."""
    try:
        value = Decimal(text.strip())
    except InvalidOperation as exc:
        raise UserError(f"{text!r} is not an amount.", where=where, fix="Write dollars as 12 or 12.50.") from exc
    if not value.is_finite() or value <= 0 or value != value.quantize(CENT) or value >= Decimal("1e10"):
        raise UserError(f"{text!r} is not an amount.", where=where, fix="Write dollars above zero, as 12 or 12.50.")
    return value.quantize(CENT)


def show_usd(value: Decimal | None) -> str:
    """`$1,234.50`; small sums keep four decimals; a dash when unknown, never $0."""
    if value is None:
        return "–"
    places = Decimal("0.0001") if 0 < abs(value) < CENT else CENT
    return f"${value.quantize(places, ROUND_HALF_UP):,}"
