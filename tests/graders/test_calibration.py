"""Agreement with people, by hand-computed tables and by a library."""

import random

import pytest

from graders.calibration import Pair, calibrate, cohen_kappa, spearman


def pairs(rewards, labels, lengths=None):
    lengths = lengths or [0] * len(rewards)
    return [
        Pair(str(n), r, label, size) for n, (r, label, size) in enumerate(zip(rewards, labels, lengths, strict=True))
    ]


def test_no_pairs_no_calibration():
    assert calibrate([]) is None


def test_perfect_agreement():
    found = calibrate(pairs([0, 0.2, 0.8, 1], [0, 0.3, 0.7, 1]))
    assert (found.agreement.value, found.spearman.value, found.kappa) == (1.0, 1.0, 1.0)


def test_confusion_counts_grader_then_person():
    found = calibrate(pairs([1, 1, 0, 0, 1], [1, 0, 0, 1, 1]))
    assert found.confusion == {(True, True): 2, (True, False): 1, (False, True): 1, (False, False): 1}
    assert found.agreement.value == 0.6
    assert found.disagreements[0].id in {"1", "3"}


def test_grader_that_likes_length_is_caught():
    found = calibrate(pairs([0.1, 0.4, 0.7, 1.0], [0.5, 0.5, 0.5, 0.5], [10, 100, 1000, 5000]))
    assert found.length_bias.value == 1.0
    assert found.spearman is None  # the people's marks do not vary


def test_spearman_equals_the_library_with_ties():
    from scipy.stats import spearmanr

    chance = random.Random(3)
    for _ in range(50):
        left = [chance.choice([0, 0.25, 0.5, 1]) for _ in range(20)]
        right = [chance.random() for _ in range(20)]
        assert spearman(left, right) == pytest.approx(spearmanr(left, right).statistic)


def test_kappa_equals_the_library():
    from sklearn.metrics import cohen_kappa_score

    chance = random.Random(4)
    ours, theirs = ([chance.random() < 0.6 for _ in range(40)] for _ in range(2))
    confusion = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for pair in zip(ours, theirs, strict=True):
        confusion[pair] += 1
    assert cohen_kappa(confusion) == pytest.approx(cohen_kappa_score(ours, theirs))


def test_interval_holds_the_value():
    chance = random.Random(5)
    found = calibrate(
        pairs([chance.random() for _ in range(60)], [chance.random() for _ in range(60)], list(range(60)))
    )
    for measured in (found.agreement, found.spearman, found.length_bias):
        assert measured.low <= measured.value <= measured.high
