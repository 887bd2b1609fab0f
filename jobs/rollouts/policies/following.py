"""Follows one generation token by token: where it stops, and what of it may be shown. Portable: standard library only."""

import re
from collections.abc import Callable, Sequence


class Follow:
    """`tell` gets the text so far after each token. Called from the thread that generates, so it only hands on."""

    def __init__(
        self, decode: Callable[[list[int]], str], stops: Sequence[str] = (), tell: Callable[[str], None] | None = None
    ) -> None:
        self.decode, self.stops, self.tell = decode, tuple(stops), tell
        self.ids: list[int] = []
        self.text = ""
        self.is_cut = False  # a stop text came up: `text` ends before it
        self.is_wanted = True

    def __call__(self, token: int) -> bool:
        """Take the next token; True ends the generation."""
        self.ids.append(token)
        self.text = self.decode(self.ids)
        places = [place for stop in self.stops if (place := self.text.find(stop)) >= 0]
        if places:
            self.text, self.is_cut = self.text[: min(places)], True
        elif self.tell:
            self.tell(self.settled())
        return self.is_cut or not self.is_wanted

    def settled(self) -> str:
        """The text without an end that may still become something else: half a character, the beginning of a stop text."""
        text = self.text.rstrip("\ufffd")
        held = max((overlap(text, stop) for stop in self.stops), default=0)
        return text[: len(text) - held]


def overlap(text: str, stop: str) -> int:
    """How many of the text's last characters are the stop text's first ones."""
    return next((size for size in range(min(len(text), len(stop)), 0, -1) if text.endswith(stop[:size])), 0)


_HALF_A_MARK = re.compile(r"<[^\s>]{0,40}$")


def visible(text: str, *, prefix: str, marks: Sequence[str], thinking: tuple[str, str] | None) -> str:
    """What of a reply that is still being written is its content for certain: what the model thought is left out, and
    nothing from a mark (of a tool call) on is content."""
    if thinking:
        opens, closes = thinking
        before = prefix + text
        if before.rfind(opens) > before.rfind(closes):
            return ""
        text = text.rpartition(closes)[2]
    for mark in marks:
        text = text.partition(mark)[0]
    return _HALF_A_MARK.sub("", text).strip()
