"""Numbers, times and money as people read them. A dash stands for none; a minus is a true minus."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils import timezone

from rftstudio.core.money import show_usd

NONE = "–"
MINUS = "−"


def _number(value: Any) -> float | None:
    if value is None or value == "" or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if number == number and abs(number) != float("inf") else None


def show_reward(value: Any, places: int = 2) -> str:
    """Two decimals; a dash when ungraded."""
    number = _number(value)
    if number is None:
        return NONE
    text = f"{abs(number):.{places}f}"
    return f"{MINUS}{text}" if number < 0 and float(text) else text


def show_signed(value: Any, places: int = 2) -> str:
    """Always with sign: +0.12, −0.03, 0.00."""
    number = _number(value)
    if number is None:
        return NONE
    text = f"{abs(number):.{places}f}"
    if not float(text):
        return text
    return f"{MINUS if number < 0 else '+'}{text}"


def show_count(value: Any) -> str:
    """5,120; from a million on "1.2 million"."""
    number = _number(value)
    if number is None:
        return NONE
    if abs(number) >= 1e6:
        return f"{number / 1e6:.1f} million"
    text = f"{abs(number):,.0f}" if number == int(number) else f"{abs(number):,.1f}"
    return f"{MINUS}{text}" if number < 0 else text


def show_percent(value: Any, places: int = 0) -> str:
    """A share of 1 as "71 %" (thin space); under 1 % one decimal."""
    number = _number(value)
    if number is None:
        return NONE
    percent = number * 100
    if places == 0 and 0 < abs(percent) < 1:
        places = 1
    return f"{percent:.{places}f}\u202f%".replace("-", MINUS)


def show_ms(value: Any) -> str:
    """Milliseconds as 340 ms, 1.4 s, 3 min 20 s, 2 h 5 min."""
    number = _number(value)
    if number is None:
        return NONE
    if number < 100:
        return f"{number:.0f} ms"
    if number < 10_000:
        return f"{number / 1000:.1f} s"
    return show_seconds(number / 1000)


def show_seconds(value: Any) -> str:
    number = _number(value)
    if number is None:
        return NONE
    seconds = round(number)
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest and minutes < 10 else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")


def show_bytes(value: Any) -> str:
    number = _number(value)
    if number is None:
        return NONE
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} bytes"


def show_when(value: datetime | None, now: datetime | None = None) -> str:
    """today 06:20 · yesterday 17:30 · Thu 17:30 · 3 Nov · 3 Nov 2024, in the current time zone."""
    if value is None:
        return NONE
    now = timezone.localtime(now or timezone.now())
    local = timezone.localtime(value)
    days = (now.date() - local.date()).days
    clock = f"{local:%H:%M}"
    if days in (0, 1, -1):
        return f"{ {0: 'today', 1: 'yesterday', -1: 'tomorrow'}[days] } {clock}"
    if 1 < days < 7:
        return f"{local:%a} {clock}"
    return f"{local.day} {local:%b}" + (f" {local.year}" if local.year != now.year else "")


def show_ago(value: datetime | None, now: datetime | None = None) -> str:
    """12 s ago, 4 min ago, 2 h ago; older: as `show_when`."""
    if value is None:
        return NONE
    seconds = max(0, round(((now or timezone.now()) - value).total_seconds()))
    if seconds < 60:
        return f"{seconds} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 12 * 3600:
        return f"{seconds // 3600} h ago"
    return show_when(value, now)


def show_money(value: Decimal | float | str | None) -> str:
    if value is None or value == "":
        return NONE
    return show_usd(Decimal(str(value)))


def show_cell(text: str) -> str:
    """A cell of a CSV file: a spreadsheet must not take words for a formula. Numbers are not passed through here."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


#: Lists in the data of an audit line that are no change from one to another.
_PLAIN_LISTS = frozenset({"scopes", "fields"})


def show_spaced(value: Any) -> str:
    """`dataset_edit` → dataset edit."""
    return str(value).replace("_", " ")


def show_deed(verb: str) -> str:
    """`api_key.created` → API key created."""
    thing, _, done = show_spaced(verb).partition(".")
    words = f"{thing} {done}".strip()
    return f"API{words[3:]}" if words.startswith("api ") else words[:1].upper() + words[1:]


def show_details(data: Any) -> str:
    """The data of an audit line for a person: `role: engineer → viewer · name: nightly`; what is empty is left out."""
    if not isinstance(data, dict):
        return str(data or "")
    parts = [
        f"{show_spaced(name)}: {_detail(name, value)}"
        for name, value in data.items()
        if value not in (None, "", [], {})
    ]
    return " · ".join(parts)


def _detail(name: str, value: Any) -> str:
    if isinstance(value, list) and len(value) == 2 and name not in _PLAIN_LISTS:
        before, after = ("none" if one in (None, "") else str(one) for one in value)
        return f"{before} → {after}"
    if isinstance(value, list):
        return ", ".join(show_spaced(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
