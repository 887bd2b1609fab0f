"""The words of an item and of a search, made alike. Portable.

What is indexed is derived by `words_of` from the stored row; an entry is taken out of the index by giving its words
again. So a change here needs a migration that fills the index anew.
"""

import re
import unicodedata
from typing import Any, NamedTuple

from datasets.row_checks import text_of

MAX_TEXT = 100_000
_MARKS = re.compile("[\u0300-\u036f]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Scripts written without spaces: each sign is a word, and words side by side are found as a phrase.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_PIECE = re.compile(r'("[^"]+"|[^\s"]+?)(\*?)(?=[\s"]|$)')
WORD = re.compile(r"[^\W_]+")


class Phrase(NamedTuple):
    words: list[str]
    goes_on: bool = False


def words_of(value: dict[str, Any]) -> str:
    """What an item is found by beside its key: what its messages say, its other fields. Tools are the same in every row."""
    parts: list[str] = []
    for name, inner in value.items():
        if name == "messages" and type(inner) is list:
            parts += [text_of(message.get("content")) for message in inner if type(message) is dict]
        elif type(inner) is str:
            parts.append(inner)
        elif name != "tools":
            _collect(inner, parts)
    return plain_words(" ".join(parts)[:MAX_TEXT])


def item_words(key: str, value: dict[str, Any]) -> str:
    """The item's entry in the index."""
    return with_key(key, words_of(value))


def with_key(key: str, words: str) -> str:
    return f"{plain_words(key)} {words}"


def _collect(value: Any, parts: list[str]) -> None:
    if type(value) is str:
        parts.append(value)
    elif type(value) is dict:
        for inner in value.values():
            _collect(inner, parts)
    elif type(value) is list:
        for inner in value:
            _collect(inner, parts)
    elif value is not None and type(value) is not bool:
        parts.append(str(value))


def plain_words(text: str) -> str:
    """Without accents, and with spaces between the signs of scripts that use none. Case is left to the index."""
    if text.isascii():
        return text.replace("\x00", " ")
    text = _MARKS.sub("", unicodedata.normalize("NFKD", _UNSTORABLE.sub(" ", text)))
    return _UNSPACED.sub(r" \g<0> ", text)


def phrases_of(search: str) -> list[Phrase]:
    """`tax* "place of supply" C-155/12` → runs of words that must stand side by side, each run anywhere; the last word of
    one with a star may go on."""
    found = [(WORD.findall(plain_words(run).lower()), bool(star)) for run, star in _PIECE.findall(search)]
    return [Phrase(words, goes_on) for words, goes_on in found if words]
