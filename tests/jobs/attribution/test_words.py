"""Credit told in words."""

import pytest

from jobs.attribution.models import RolloutCredit
from jobs.attribution.words import because, interval_words, verdict


@pytest.mark.parametrize(
    "low, high, words",
    [
        (0.15, 0.33, "+0.15 to +0.33"),
        (-0.20, 0.004, "−0.20 to 0.00"),  # could be zero, so zero is no lie
        (-0.003, 0.002, "0.00 to 0.00"),
        (0.004, 0.31, "+0.004 to +0.310"),  # clear, and two decimals would hide it
        (-0.12, -0.0049, "−0.120 to −0.005"),
        (-0.31, -0.0002, "−0.3100 to −0.0002"),
    ],
)
def test_both_ends_of_an_interval_have_the_same_decimals(low, high, words):
    assert interval_words(low, high) == words


def test_verdict_does_not_round_a_clear_interval_onto_zero():
    credit = RolloutCredit(
        method="divergence", baseline=0.5, credits=[0.2], low=[0.004], high=[0.4], support=[3], detail={}
    )
    assert "90 % sure between 0.004 and 0.400." in verdict(credit, [True], "divergence")[0]


def test_a_guess_that_moved_and_the_rest_add_up_to_the_credit():
    # Siblings' mean 0.50, guesses 0.56, 0.44, 0.00, reward 0.09: the way from 0.50 to 0.56 is shared by two steps, and the
    # last one closes from 0.00 to 0.09. Credits −0.09, −0.32 sum to 0.09 − 0.50.
    steps = [{"before": 0.56, "after": 0.44}, {"before": 0.44, "after": 0.00}]
    credit = RolloutCredit(
        method="prefix_value", baseline=0.5, credits=[-0.09, -0.32], low=[None] * 2, high=[None] * 2, support=[0, 0],
        detail={"steps": steps},
    )  # fmt: skip
    assert because("prefix_value", credit, 0) == (
        "Guess before 0.56, after 0.44; +0.03 is its part of the way from the siblings' mean to the first guess."
    )
    assert because("prefix_value", credit, 1) == "Guess before 0.44, after 0.00; +0.12 closes to the reward it got."


def test_a_guess_that_is_the_whole_credit_needs_no_more_words():
    credit = RolloutCredit(
        method="prefix_value", baseline=0.5, credits=[-0.12, 0.0], low=[None] * 2, high=[None] * 2, support=[0, 0],
        detail={"steps": [{"before": 0.56, "after": 0.44}, {}]},
    )  # fmt: skip
    assert because("prefix_value", credit, 0) == "Guess before 0.56, after 0.44."
