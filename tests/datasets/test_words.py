"""Words of items and of searches: plain tables."""

import pytest

from datasets.words import item_words, phrases_of, plain_words, words_of
from tests.datasets.helpers import row


def test_row_is_found_by_what_people_read():
    value = row("Where?", reference_answer=7, tags=["vat", {"deep": "down"}], flag=True, none=None)
    value["tools"] = [{"type": "function", "function": {"name": "look_up"}}]
    assert words_of(value).split() == ["Where?", "7", "vat", "down"]


def test_parts_of_a_message_are_its_text():
    parts = [{"type": "text", "text": "see this"}, {"type": "image_url", "image_url": {"url": "data:AAAA"}}]
    assert item_words("k1", {"messages": [{"role": "user", "content": parts}]}).split() == ["k1", "see", "this"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("as it is", "as it is"),
        ("Cristóbal", "Cristobal"),
        ("caf\u00e9 cafe\u0301", "cafe cafe"),
        ("\uff11\uff12", "12"),
        ("a\x00b", "a b"),
        ("a\ud83db", "a b"),
    ],
)
def test_plain_words(text, plain):
    assert plain_words(text) == plain


@pytest.mark.parametrize(
    ("search", "phrases"),
    [
        ("place tax", [(["place"], False), (["tax"], False)]),
        ('"place of" C-155/12', [(["place", "of"], False), (["c", "155", "12"], False)]),
        ('tax* "place of"*', [(["tax"], True), (["place", "of"], True)]),
        ("税金", [(["税", "金"], False)]),
        ('"', []),
        ("=+@ *", []),
        ("snake_case", [(["snake", "case"], False)]),
        ('half "open', [(["half"], False), (["open"], False)]),
    ],
)
def test_phrases_of_a_search(search, phrases):
    assert phrases_of(search) == phrases
