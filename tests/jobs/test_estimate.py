"""The estimate: sums by hand, and whether it held."""

import pytest

from jobs.estimate import PastRun, estimate, held
from jobs.plan import Derived

DERIVED = Derived(train_steps=80, train_rollouts=5_000, validation_checks=8, validation_rollouts=800, formula="80")


def test_estimate_without_earlier_jobs_goes_by_the_pace_of_the_baseline():
    found = estimate(DERIVED, rollout_seconds=0.01, second_price=0.001)
    # 5,000 + 0.5 × 800 = 5,400 rollouts of 2 × 10 ms, behind 10 s of loading
    assert found.seconds == pytest.approx(118)
    assert found.low < found.seconds < found.high
    assert found.usd == pytest.approx(0.118)
    assert found.usd_high == pytest.approx(found.high * 0.001)
    assert found.formula == "10 s to start + (5,000 + 0.5 × 800) rollouts × 20 ms"


def test_estimate_from_earlier_jobs_takes_the_middle_and_their_span():
    past = [PastRun(1, 64.0, 5_000, 800), PastRun(2, 118.0, 5_000, 800), PastRun(3, 91.0, 5_000, 800)]
    found = estimate(DERIVED, past=past, rollout_seconds=9.0)
    assert found.seconds == pytest.approx(91)
    assert found.low == pytest.approx(10 + 54 / 1.5)
    assert found.high == pytest.approx(10 + 108 * 1.5)
    assert found.basis == "From 3 earlier jobs of this agent."


def test_estimate_of_demonstrations_counts_each_as_half_a_rollout():
    derived = Derived(6, 0, 1, 10, "6", demonstrations=48)
    found = estimate(derived, rollout_seconds=0.1)
    assert found.seconds == pytest.approx(10 + (24 + 5) * 0.2)
    assert found.formula == "10 s to start + (0.5 × 48 demonstrations + 0.5 × 10) rollouts × 200 ms"


def test_estimate_with_nothing_to_go_by_says_so():
    found = estimate(DERIVED)
    assert (found.seconds, found.usd) == (None, None)
    assert "Nothing to go by" in found.basis


def test_held_compares_the_truth_with_the_range():
    shown = estimate(DERIVED, rollout_seconds=0.01).as_dict()
    assert held(shown, 118.0) is True
    assert held(shown, 9_999.0) is False
    assert held(None, 5.0) is held(shown, None) is None
