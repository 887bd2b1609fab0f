"""Prices as they are sold, amounts with every digit."""

from decimal import Decimal

import pytest

from rftstudio.usage.prices import exact_usd, how_counted, sold_price, unit_price


@pytest.mark.parametrize(
    ("unit", "sold"), [("training_second", "14.40"), ("training_second", "1"), ("input_token", "0.05")]
)
def test_price_comes_back_as_it_was_typed(unit, sold):
    assert sold_price(unit, unit_price(unit, Decimal(sold))) == Decimal(sold)


@pytest.mark.parametrize(
    ("usd", "words"),
    [
        ("0.073", "$0.073"),
        ("5", "$5.00"),
        ("1234.5", "$1,234.50"),
        ("-0.0001", "−$0.0001"),
        ("0", "$0.00"),
        (None, "–"),
    ],
)
def test_amounts_show_every_digit(usd, words):
    assert exact_usd(None if usd is None else Decimal(usd)) == words


@pytest.mark.parametrize(
    ("unit", "quantity", "price", "words"),
    [
        ("training_second", "504", "0.004", "0.14 h × $14.40 an hour of training"),
        ("training_second", "0.5", "0.004", "0.5 s × $14.40 an hour of training"),
        ("output_token", "41200", None, "41,200 tokens written"),
        ("output_token", "41200", "0.00001", "41,200 tokens written × $10.00 a million"),
        ("", None, None, ""),
    ],
)
def test_line_shows_its_arithmetic(unit, quantity, price, words):
    given = [None if one is None else Decimal(one) for one in (quantity, price)]
    assert how_counted(unit, *given) == words
