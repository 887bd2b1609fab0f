"""Units as people buy them (a million tokens, an hour), and prices as they were at a moment."""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from rftstudio.core.show import show_count
from rftstudio.usage.models import Price, Unit


@dataclass(frozen=True)
class Measure:
    """How a unit is sold: `size` units make one of what the price list names."""

    sold_by: str
    size: int
    noun: str


MEASURES: dict[str, Measure] = {
    Unit.INPUT_TOKEN: Measure("million tokens read", 1_000_000, "tokens read"),
    Unit.OUTPUT_TOKEN: Measure("million tokens written", 1_000_000, "tokens written"),
    Unit.TRAINING_SECOND: Measure("hour of training", 3600, "h"),
    Unit.GPU_SECOND: Measure("GPU hour", 3600, "GPU h"),
    Unit.STORAGE_GB_DAY: Measure("GB kept for a day", 1, "GB days"),
}
_SECONDS = {Unit.TRAINING_SECOND, Unit.GPU_SECOND}


def sold_price(unit: str, usd: Decimal) -> Decimal:
    """Dollars for one of what is sold, from dollars for one unit; without the dust of the division."""
    whole = usd * MEASURES[unit].size
    rounded = whole.quantize(Decimal("1e-6"))
    return rounded if abs(whole - rounded) < Decimal("1e-8") else whole


def unit_price(unit: str, sold: Decimal) -> Decimal:
    """Dollars for one unit, from dollars for one of what is sold."""
    return (sold / MEASURES[unit].size).quantize(Decimal("1e-12"))


def exact_usd(usd: Decimal | None) -> str:
    """Every digit of an amount, two decimals at least: a ledger that rounds does not add up."""
    if usd is None:
        return "–"
    digits = format(abs(usd).quantize(Decimal("1e-8")), "f").rstrip("0")
    whole, _, part = digits.partition(".")
    return f"{'−' if usd < 0 else ''}${int(whole):,}.{part.ljust(2, '0')}"


def how_counted(unit: str, quantity: Decimal | None, unit_usd: Decimal | None) -> str:
    """The arithmetic of a line in words: 0.14 h × $14.40."""
    if not unit or quantity is None:
        return ""
    measure = MEASURES[unit]
    if unit in _SECONDS:
        amount = f"{quantity:.1f} s" if quantity < 36 else f"{quantity / measure.size:.2f} {measure.noun}"
    else:
        amount = f"{show_count(quantity)} {measure.noun}"
    if unit_usd is None:
        return amount
    one = "million" if measure.sold_by.startswith("million") else measure.sold_by  # of what, the amount has said
    article = "an" if one.startswith("hour") else "a"
    return f"{amount} × {exact_usd(sold_price(unit, unit_usd))} {article} {one}"


class PriceBook:
    """Prices by moment: a subject's own before the one for all (`*`). Reads each list of prices once."""

    def __init__(self) -> None:
        self._lists: dict[tuple[str, str], list[tuple[datetime, Decimal]]] = {}

    def at(self, unit: str, subject: str, at: datetime) -> Decimal | None:
        """Dollars for one unit at that moment; None when there is no price."""
        own = self._last(unit, subject, at)
        return own if own is not None or subject == "*" else self._last(unit, "*", at)

    def _last(self, unit: str, subject: str, at: datetime) -> Decimal | None:
        key = (unit, subject)
        if key not in self._lists:
            rows = Price.objects.filter(unit=unit, subject=subject).order_by("valid_from")
            self._lists[key] = list(rows.values_list("valid_from", "usd"))
        rows = self._lists[key]
        place = bisect_right([start for start, _ in rows], at)
        return rows[place - 1][1] if place else None
