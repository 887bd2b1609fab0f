"""Questions that are almost the same, by MinHash over word triples (datasketch). Portable."""

import re
from collections.abc import Iterable
from typing import Any

THRESHOLD = 0.85
PERMUTATIONS = 64
MAX_ITEMS = 20_000
MAX_PAIRS = 200
_WORDS = re.compile(r"\w+")


def near_pairs(questions: Iterable[tuple[Any, str]]) -> list[tuple[Any, Any, float]]:
    """`(id, text)` → pairs of ids with their estimated likeness (Jaccard), best first; equal texts are not pairs."""
    from datasketch import MinHash, MinHashLSH  # brings scipy along, which no process should load at its start

    index = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)
    kept: dict[Any, tuple[MinHash, str]] = {}
    pairs: list[tuple[Any, Any, float]] = []
    for item, text in questions:
        mark = MinHash(num_perm=PERMUTATIONS, seed=1)
        mark.update_batch(shingles(text))
        for other in index.query(mark):
            likeness = kept[other][0].jaccard(mark)
            if likeness >= THRESHOLD and kept[other][1] != text:
                pairs.append((other, item, round(likeness, 2)))
        if len(pairs) > MAX_PAIRS * 10:
            break
        index.insert(item, mark)
        kept[item] = (mark, text)
    return sorted(pairs, key=lambda pair: -pair[2])[:MAX_PAIRS]


def shingles(text: str) -> list[bytes]:
    """Runs of three words; of a text without words, runs of three characters."""
    words = _WORDS.findall(text.lower()[:4000])
    if len(words) < 3:
        compact = "".join(text.lower().split())[:4000]
        return [compact[start : start + 3].encode() for start in range(max(1, len(compact) - 2))]
    return [" ".join(words[start : start + 3]).encode() for start in range(len(words) - 2)]
