"""Numbers, money and times as people read them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from rftstudio.core import show

NOW = datetime(2026, 11, 20, 9, 41, 30, tzinfo=UTC)


@pytest.mark.parametrize("value,text", [
    (0.917, "0.92"), (1, "1.00"), (-0.3, "−0.30"), (0, "0.00"), (-0.001, "0.00"), (None, "–"), ("", "–"),
    (float("nan"), "–"), (float("inf"), "–"), (True, "–"), ("word", "–"),
])  # fmt: skip
def test_reward(value, text):
    assert show.show_reward(value) == text


@pytest.mark.parametrize("value,text", [(0.12, "+0.12"), (-0.031, "−0.03"), (0.001, "0.00"), (None, "–")])
def test_signed(value, text):
    assert show.show_signed(value) == text


@pytest.mark.parametrize("value,text", [
    (5120, "5,120"), (1_200_000, "1.2 million"), (2.34, "2.3"), (-4, "−4"), (None, "–"), (0, "0"),
])  # fmt: skip
def test_count(value, text):
    assert show.show_count(value) == text


@pytest.mark.parametrize("value,text", [(0.71, "71 %"), (0.004, "0.4 %"), (0, "0 %"), (1, "100 %"), (None, "–")])
def test_percent_is_of_one_and_keeps_small_shares(value, text):
    assert show.show_percent(value) == text.replace(" ", "\u202f")


@pytest.mark.parametrize("value,text", [
    (12, "12 ms"), (340, "0.3 s"), (1400, "1.4 s"), (38_000, "38 s"), (200_000, "3 min 20 s"), (7_500_000, "2 h 5 min"),
])  # fmt: skip
def test_milliseconds(value, text):
    assert show.show_ms(value) == text


@pytest.mark.parametrize("value,text", [(14_200, "14.2 kB"), (3_400_000, "3.4 MB"), (12, "12 bytes"), (None, "–")])
def test_bytes(value, text):
    assert show.show_bytes(value) == text


@pytest.mark.parametrize("value,text", [
    (Decimal("1234.5"), "$1,234.50"), (0.0031, "$0.0031"), (0, "$0.00"), (None, "–"), ("", "–"),
])  # fmt: skip
def test_money_unknown_is_never_zero(value, text):
    assert show.show_money(value) == text


@pytest.mark.parametrize("back,text", [
    (timedelta(hours=3), "today 06:41"), (timedelta(hours=12), "yesterday 21:41"), (timedelta(days=3), "Tue 09:41"),
    (timedelta(days=30), "21 Oct"), (timedelta(days=400), "16 Oct 2025"), (timedelta(hours=-20), "tomorrow 05:41"),
])  # fmt: skip
def test_when(back, text):
    assert show.show_when(NOW - back, NOW) == text


@pytest.mark.parametrize("back,text", [
    (timedelta(seconds=4), "4 s ago"), (timedelta(minutes=40), "40 min ago"), (timedelta(hours=2), "2 h ago"),
    (timedelta(hours=20), "yesterday 13:41"), (timedelta(seconds=-5), "0 s ago"),
])  # fmt: skip
def test_ago(back, text):
    assert show.show_ago(NOW - back, NOW) == text


@pytest.mark.parametrize(
    ("verb", "words"), [("api_key.created", "API key created"), ("quota.set", "Quota set"), ("odd", "Odd")]
)
def test_deeds_are_told_in_words(verb, words):
    assert show.show_deed(verb) == words


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"usd_month": [None, "700"], "scope": "the whole team"}, "usd month: none → 700 · scope: the whole team"),
        ({"scopes": ["dataset_edit", "view"], "expires_at": None, "x": []}, "scopes: dataset edit, view"),
        ({"everywhere": False, "number": 0}, "everywhere: no · number: 0"),
        ("<b>", "<b>"),
        (None, ""),
    ],
)
def test_details_are_told_in_words(data, words):
    assert show.show_details(data) == words


@pytest.mark.parametrize(("text", "cell"), [("=1+1", "'=1+1"), ("@x", "'@x"), ("plain", "plain"), ("", "")])
def test_words_are_no_formula_in_a_spreadsheet(text, cell):
    assert show.show_cell(text) == cell
