"""Public ids: prefix, length, alphabet, no repeats, no favourite letters."""

from collections import Counter

from rftstudio.core.ids import new_id


def test_ids_have_their_prefix_and_20_letters_or_digits():
    made = new_id("ftjob-")
    assert made.startswith("ftjob-")
    assert len(made) == 26
    assert made[6:].isalnum()
    assert made.isascii()


def test_ids_do_not_repeat_and_favour_no_letter():
    made = [new_id("") for _ in range(20_000)]
    assert len(set(made)) == 20_000
    counted = Counter("".join(made))
    assert len(counted) == 62
    assert min(counted.values()) > 0.9 * max(counted.values()) * 0.95
