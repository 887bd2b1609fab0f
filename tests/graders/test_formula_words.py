"""Formulas in words, their range, and the arithmetic of one reward."""

import pytest

from graders.formula import Formula
from graders.formula_words import formula_range, formula_shares, formula_words

NAMES = ["conclusion", "citations", "payer"]


@pytest.mark.parametrize(
    "source,words",
    [
        (
            "min(1, 0.6 * conclusion + 0.3 * citations + 0.1 * payer)",
            "six tenths conclusion, three tenths citations, one tenth payer",
        ),
        ("0.5 * conclusion + 0.5 * payer", "half conclusion, half payer"),
        ("conclusion", "all of conclusion"),
        ("conclusion - 0.25 * payer", "all of conclusion, less a quarter of payer"),
        ("1", "always the same number"),
    ],
)
def test_sums_are_said_as_shares(source, words):
    assert formula_words(Formula(source, NAMES)) == words


def test_products_name_what_counts_most():
    said = formula_words(Formula("conclusion * (0.9 + 0.1 * payer)", NAMES))
    assert said.startswith("no plain sum. From the middle, most depends on conclusion")


def test_names_for_people_are_used():
    assert formula_words(Formula("payer", NAMES), {"payer": "Who pays"}) == "all of Who pays"


@pytest.mark.parametrize(
    "source,low,high",
    [("conclusion", 0, 1), ("conclusion - payer", -1, 1), ("5 * conclusion", 0, 5), ("1 / payer", 1, 1)],
)
def test_range_over_the_corners(source, low, high):
    found = formula_range(Formula(source, NAMES), {})
    assert (found.low, found.high) == (low, high)


def test_shares_add_up_to_the_reward():
    formula = Formula("min(1, 0.6 * conclusion + 0.4 * payer)", NAMES)
    shares = formula_shares(formula, {"conclusion": 1.0, "payer": 1.0})
    assert {share.name: share.adds for share in shares} == pytest.approx({"conclusion": 0.6, "payer": 0.4})


def test_no_shares_where_a_sum_would_be_untrue():
    assert formula_shares(Formula("conclusion * payer", NAMES), {"conclusion": 0.5, "payer": 0.5}) == []
