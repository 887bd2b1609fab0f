"""A generation followed token by token, against hand-made texts."""

import pytest

from jobs.rollouts.policies.following import Follow, overlap, visible

LETTERS = "".join


def follow(text: str, *stops: str) -> tuple[Follow, list[str], int]:
    """What was told, and after how many letters it ended."""
    told: list[str] = []
    one = Follow(LETTERS, stops, told.append)
    for count, letter in enumerate(text, 1):
        if one(letter):
            return one, told, count
    return one, told, len(text)


def test_text_ends_before_the_first_stop_text_and_the_generation_with_it():
    one, told, count = follow("one, two; three", ";", "two")
    assert (one.text, one.is_cut, count) == ("one, ", True, 8)
    assert told == ["o", "on", "one", "one,", "one, ", "one, ", "one, "], "what may become a stop text is held back"


def test_half_a_character_is_held_back():
    told: list[str] = []
    one = Follow(lambda ids: bytes(ids).decode("utf-8", "replace"), (), told.append)
    for byte in "né".encode():
        one(byte)
    assert told == ["n", "n", "né"]


def test_nobody_waiting_ends_the_generation():
    one = Follow(LETTERS)
    assert not one("a")
    one.is_wanted = False
    assert one("b")


@pytest.mark.parametrize(
    ("text", "stop", "size"), [("abc", "cd", 1), ("abab", "abac", 2), ("abc", "x", 0), ("", "x", 0)]
)
def test_overlap_is_the_longest_end_that_begins_the_stop(text, stop, size):
    assert overlap(text, stop) == size


@pytest.mark.parametrize(
    ("text", "prefix", "shown"),
    [
        ("The rate", "", "The rate"),
        ("The rate ", "", "The rate"),
        ("a < b", "", "a < b"),
        ("Let me <tool_c", "", "Let me"),
        ("Let me <tool_call>look", "", "Let me"),
        ("<think>hm", "", ""),
        ("hm", "assistant\n<think>\n", ""),
        ("hm</think>\n\n12", "assistant\n<think>\n", "12"),
        ("<think>hm</think>12 <", "", "12"),
    ],
)
def test_only_what_is_content_for_certain_is_visible(text, prefix, shown):
    assert visible(text, prefix=prefix, marks=["<tool_call>"], thinking=("<think>", "</think>")) == shown
