"""Questions that are almost the same: MinHash of word triples (datasketch), and LSH by sorting bands of the signatures, so that
a quarter of a million fit in memory. Portable.

The signature of a question is 64 numbers; two questions agree on about as many of them as they share triples. Cut into
bands, those that are alike stand beside each other in at least one band when it is sorted, so only neighbours are compared.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

THRESHOLD = 0.85
PERMUTATIONS = 64
ROWS_PER_BAND = 8
MAX_ITEMS = 500_000
MAX_PAIRS = 200
_WORDS = re.compile(r"\w+")


# Columns of the signature beside each other, and columns spread over it: of pairs at 85 % sixteen bands find MISSED.
_BANDS = [slice(start, start + ROWS_PER_BAND) for start in range(0, PERMUTATIONS, ROWS_PER_BAND)]
_BANDS += [slice(start, None, PERMUTATIONS // ROWS_PER_BAND) for start in range(PERMUTATIONS // ROWS_PER_BAND)]


class Signatures:
    """What is kept of the questions seen: 256 bytes each, and a hash of the text."""

    def __init__(self, capacity: int) -> None:
        self.marks = np.empty((capacity, PERMUTATIONS), dtype=np.uint32)
        self.texts = np.empty(capacity, dtype=np.int64)
        self.count = 0

    def add(self, texts: Iterable[str]) -> None:
        from datasketch import MinHash  # brings scipy along, which no process should load at its start

        blank = MinHash(num_perm=PERMUTATIONS, seed=1)
        for text in texts:
            mark = blank.copy()
            mark.update_batch(shingles(text))
            self.marks[self.count] = mark.hashvalues
            self.texts[self.count] = hash(text)
            self.count += 1


class Pair(NamedTuple):
    """Places of two questions and their estimated likeness (Jaccard)."""

    first: int
    second: int
    likeness: float


def near_pairs(signatures: Signatures, sides: Sequence[int] | None = None) -> list[Pair]:
    """Pairs of alike questions in order of their places; equal texts are not pairs. Of many that are all alike each is
    paired with one, so a set made of one template gives no million pairs: with one of another side (a number for each
    question, such as its split) if there is any, because that is a leak, else with the likeliest."""
    marks, texts = signatures.marks[: signatures.count], signatures.texts[: signatures.count]
    side = np.zeros(signatures.count, dtype=np.int8) if sides is None else np.asarray(sides, dtype=np.int8)
    found: dict[int, tuple[bool, float, int]] = {}
    for band in _BANDS:
        for firsts, seconds in _neighbours(marks[:, band], side):
            likeness = (marks[firsts] == marks[seconds]).mean(axis=1)
            good = (likeness >= THRESHOLD) & (texts[firsts] != texts[seconds])
            firsts, seconds = firsts[good], seconds[good]
            is_across = side[firsts] != side[seconds]
            for first, second, across, share in zip(firsts, seconds, is_across, likeness[good], strict=True):
                known = found.get(int(second))
                if known is None or (across, share) > known[:2]:
                    found[int(second)] = (bool(across), float(share), int(first))
    return [Pair(first, second, round(share, 2)) for second, (_, share, first) in sorted(found.items())]


def _neighbours(band: Any, side: Any, at_once: int = 20_000) -> Iterator[tuple[Any, Any]]:
    """Places whose bands are equal: each with the first of its group, with the one before it, and with the last before it
    that stands on another side."""
    keys = np.ascontiguousarray(band).view(np.dtype((np.void, band.dtype.itemsize * band.shape[1]))).ravel()
    _, groups = np.unique(keys, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    ordered, sides = groups[order], side[order]
    is_new = np.append(True, (ordered[1:] != ordered[:-1]) | (sides[1:] != sides[:-1]))[: len(ordered)]
    before_run = np.maximum.accumulate(np.where(is_new, np.arange(len(ordered)), 0)) - 1
    is_same = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    starts = np.searchsorted(ordered, ordered[is_same])
    has_across = before_run[is_same] >= starts
    across = is_same[has_across]
    for firsts, seconds in ((starts, is_same), (is_same - 1, is_same), (before_run[across], across)):
        for start in range(0, len(seconds), at_once):
            yield order[firsts[start : start + at_once]], order[seconds[start : start + at_once]]


def shingles(text: str) -> list[bytes]:
    """Runs of three words; of a text without words, runs of three characters."""
    words = _WORDS.findall(text.lower()[:4000])
    if len(words) < 3:
        compact = "".join(text.lower().split())[:4000]
        return [compact[start : start + 3].encode() for start in range(max(1, len(compact) - 2))]
    return [" ".join(words[start : start + 3]).encode() for start in range(len(words) - 2)]
