"""Credit in training: what step advantages add up to."""

import pytest

from jobs.attribution.types import Credit
from jobs.backends.trl.credit import CreditWindow, step_advantages
from jobs.backends.trl.journal import Journal
from tests.jobs.backends.trl.scored import scored


def group():
    """Rewards 1, 0, 0.5 with advantages as GRPO computes them, and leave-one-out baselines."""
    tries = [scored(reward=reward, sizes=(6, 2)) for reward in (1.0, 0.0, 0.5)]
    for one in tries:
        one.advantage = (one.reward - 0.5) / (0.5 + 1e-4)
    return tries, [0.25, 0.75, 0.5]


def credit(place, baseline, shares):
    return Credit(str(place), "x", baseline, shares, [None] * len(shares), [None] * len(shares), [1] * len(shares))


def last_step_credits(tries, baselines):
    pairs = enumerate(zip(tries, baselines, strict=True))
    return {place: credit(place, base, [0.0, one.reward - base]) for place, (one, base) in pairs}


def test_uniform_credit_gives_back_the_plain_advantages():
    tries, baselines = group()
    credits = {}
    for place, (one, baseline) in enumerate(zip(tries, baselines, strict=True)):
        above = one.reward - baseline
        credits[place] = credit(place, baseline, [above * 6 / 8, above * 2 / 8])
    for one, values in zip(tries, step_advantages(tries, credits), strict=True):
        assert values == pytest.approx([one.advantage] * 2)


def test_shares_move_between_steps_and_their_weighted_mean_stays():
    tries, baselines = group()
    credits = last_step_credits(tries, baselines)
    values = step_advantages(tries, credits, clip=100)
    assert values[0][0] == 0
    assert (6 * values[0][0] + 2 * values[0][1]) / 8 == pytest.approx(tries[0].advantage)


def test_short_steps_are_clipped():
    tries, baselines = group()
    credits = last_step_credits(tries, baselines)
    assert step_advantages(tries, credits, clip=1.0)[0][1] == 1.0


def test_ungraded_try_keeps_no_advantage():
    tries, _ = group()
    tries[0].grade.reward = tries[0].advantage = None
    assert step_advantages(tries, {})[0] == [0.0, 0.0]


def test_group_without_signal_stays_without():
    tries = [scored(reward=1.0), scored(reward=1.0)]
    for one in tries:
        one.advantage = 0.0
    credits = {n: credit(n, 1.0, [0.3, -0.3]) for n in range(2)}
    assert step_advantages(tries, credits) == [[0.0, 0.0], [0.0, 0.0]]


def uniform(rollouts):
    return [credit(one.rollout, 0.0, [0.0] * len(one.steps)) for one in rollouts]


def test_window_shows_tries_as_methods_see_them():
    seen = []
    window = CreditWindow(lambda rollouts: seen.extend(rollouts) or uniform(rollouts))
    assert set(window.credits(3, [scored("a", 1.0), scored("b", None)])) == {0, 1}
    assert [(one.rollout, one.group, one.reward) for one in seen] == [("3:0", "3:a", 1.0), ("3:1", "3:b", None)]
    steps = [(step.kind, step.name, step.arguments, step.tokens) for step in seen[0].steps]
    assert steps == [("tool", "lookup", "{}", 5), ("answer", "", "12", 2)]


def test_window_keeps_the_last_train_steps_only():
    counts = []
    window = CreditWindow(lambda rollouts: counts.append(len(rollouts)) or uniform(rollouts), steps=2)
    for step in (1, 2, 3):
        assert set(window.credits(step, [scored("a"), scored("b")])) == {0, 1}
    assert counts == [2, 4, 4]


def test_window_is_filled_from_the_journal_as_it_was(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    undisturbed = CreditWindow(uniform)
    journal.write("started", attempt=1, from_step=0, total_steps=9)
    for step in range(1, 6):
        tries = [scored(f"item-{step}", step / 10), scored(f"item-{step}", None)]
        undisturbed.credits(step, tries)
        for one in tries:
            journal.write("rollout", phase="train", step=step, record=one.record({}))
    journal.write("started", attempt=2, from_step=4, total_steps=9)
    resumed = CreditWindow(uniform)
    resumed.fill(tmp_path / "journal.jsonl", 4)
    assert resumed.steps == {step: kept for step, kept in undisturbed.steps.items() if step < 5} | {1: resumed.steps[1]}
    assert sorted(resumed.steps) == [1, 2, 3, 4]
