"""Paired comparison and pivots as plain tables."""

import pytest

from jobs.evaluations.compare import bootstrap_interval, compare, pivot
from jobs.evaluations.intervals import clustered_error, mean_interval, t_quantile, wilson
from jobs.evaluations.metrics import RolloutRow


def rows(**rewards: list[float | None]) -> list[RolloutRow]:
    return [RolloutRow(group=key, reward=value) for key, values in rewards.items() for value in values]


def test_compare_pairs_items_and_leaves_the_others_out():
    found = compare(rows(a=[0.0, 1.0], b=[0.5], c=[1.0]), rows(a=[1.0], b=[0.5], d=[0.0]))
    assert [(pair.key, pair.change) for pair in found.pairs] == [("b", 0.0), ("a", 0.5)]
    assert (found.mean_change, found.better, found.worse, found.same) == (0.25, 1, 0, 1)
    assert (found.only_before, found.only_after) == (1, 1)


def test_compare_of_equal_policies_includes_zero_and_says_so():
    first = rows(**{f"i{n}": [n % 2, (n + 1) % 2] for n in range(30)})
    second = rows(**{f"i{n}": [(n // 2) % 2, (n // 3) % 2] for n in range(30)})
    found = compare(first, second)
    assert not found.is_clear
    assert "could be chance" in found.sentence


def test_compare_finds_a_clear_gain_with_a_narrower_interval_than_unpaired():
    before = rows(**{f"i{n}": [n / 40] for n in range(40)})
    after = rows(**{f"i{n}": [n / 40 + 0.05 + (n % 3) / 100] for n in range(40)})
    found = compare(before, after)
    assert found.is_clear
    assert found.low > 0.04
    assert found.sentence == "Better beyond chance."


def test_compare_without_common_items_invents_nothing():
    found = compare(rows(a=[1.0]), rows(b=[1.0]))
    assert (found.mean_change, found.low) == (None, None)
    assert "cannot be compared" in found.sentence


def test_bootstrap_interval_is_repeatable_and_near_the_t_interval():
    values = [((n * 37) % 100) / 100 for n in range(60)]
    assert bootstrap_interval(values) == bootstrap_interval(values)
    low, high = mean_interval([[value] for value in values])
    assert bootstrap_interval(values) == pytest.approx((low, high), abs=0.02)


def test_pivot_groups_by_tag_and_keeps_items_without_one():
    found = pivot(rows(a=[1.0, 0.0], b=[None], c=[1.0]), {"a": "rate", "b": "rate"}, pass_threshold=0.5)
    assert [(line["tag"], line["n_items"], line["graded"], line["mean_reward"]) for line in found] == [
        ("rate", 2, 2, 0.5), (None, 1, 1, 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "degrees, want", [(1, 6.3138), (2, 2.9200), (3, 2.3534), (5, 2.0150), (10, 1.8125), (100, 1.6602)]
)
def test_t_quantile_matches_the_tables(degrees, want):
    assert t_quantile(degrees) == pytest.approx(want, rel=0.003)


def test_wilson_matches_a_worked_example():
    assert wilson(0, 10) == pytest.approx((0.0, 0.2130), abs=1e-3)
    assert wilson(5, 10) == pytest.approx((0.2692, 0.7308), abs=1e-3)
    assert wilson(0, 0) is None


def test_clustered_error_of_balanced_groups_is_that_of_their_means():
    error, degrees = clustered_error([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    assert degrees == 2
    assert error == pytest.approx((0.25 / 3) ** 0.5)
