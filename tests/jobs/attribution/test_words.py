"""Credit told in words."""

from jobs.attribution.models import RolloutCredit
from jobs.attribution.words import because


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
