"""Text similarity, each metric as one library function with fixed settings. Portable; libraries load at first use.

fuzzy_match  rapidfuzz.fuzz.ratio / 100
bleu         sacrebleu.sentence_bleu / 100 (its defaults: 13a tokens, exponential smoothing, effective order)
gleu         nltk.translate.gleu_score.sentence_gleu over text.split()
meteor       nltk.translate.meteor_score over text.split(), Porter stems, no WordNet
rouge_1…5,l  F-measure of rouge_score without stemming, written here (its package is slow to load and no longer kept)

ROUGE's tokens are runs of a–z and 0–9, so it sees nothing of other scripts. Two equal texts without such tokens count
as 1; two different ones as 0 with a warning, never a silent 0.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Metric = Callable[[str, str], float]
_NOT_A_TOKEN = re.compile(r"[^a-z0-9]+")
NOT_LATIN = "ROUGE reads only the letters a to z and digits, and one of the texts has none; try fuzzy_match."

METRICS = {
    "fuzzy_match": "how few letters must be changed (rapidfuzz ratio)",
    "bleu": "word sequences in common, short answers punished (sacrebleu)",
    "gleu": "word sequences in common, both ways (Google BLEU)",
    "meteor": "words and word stems in common, in order (METEOR)",
    "rouge_1": "words in common (ROUGE-1)",
    "rouge_2": "word pairs in common (ROUGE-2)",
    "rouge_3": "word triples in common (ROUGE-3)",
    "rouge_4": "runs of 4 words in common (ROUGE-4)",
    "rouge_5": "runs of 5 words in common (ROUGE-5)",
    "rouge_l": "longest common thread of words (ROUGE-L)",
}


@lru_cache(maxsize=32)
def metric(name: str) -> Metric:
    """The function (answer, reference) → 0…1."""
    if name.startswith("rouge_"):
        return _rouge_l if name == "rouge_l" else _rouge_n(int(name[-1]))
    return {"fuzzy_match": _fuzzy_match, "bleu": _bleu, "gleu": _gleu, "meteor": _meteor}[name]()


def _fuzzy_match() -> Metric:
    from rapidfuzz.fuzz import ratio

    return lambda answer, reference: ratio(answer, reference) / 100.0


def _bleu() -> Metric:
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(effective_order=True)  # what sacrebleu.sentence_bleu builds anew for every call

    def bleu(answer: str, reference: str) -> float:
        return min(1.0, max(0.0, scorer.sentence_score(answer, [reference]).score / 100.0))

    return bleu


def _gleu() -> Metric:
    from nltk.translate.gleu_score import sentence_gleu

    return lambda answer, reference: float(sentence_gleu([reference.split()], answer.split()))


class _NoWordNet:
    """METEOR's synonyms need a corpus that is a download; without it stems decide."""

    @staticmethod
    def synsets(word: str) -> list[Any]:
        return []


def _meteor() -> Metric:
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.meteor_score import meteor_score

    stemmer = _Remembered(PorterStemmer())

    def meteor(answer: str, reference: str) -> float:
        return float(meteor_score([reference.split()], answer.split(), stemmer=stemmer, wordnet=_NoWordNet))

    return meteor


class _Remembered:
    """A stemmer that keeps the stems it has made; natural text repeats its words."""

    def __init__(self, stemmer: Any) -> None:
        self.stem = lru_cache(maxsize=50_000)(stemmer.stem)


def rouge_tokens(text: str) -> list[str]:
    return _NOT_A_TOKEN.sub(" ", text.lower()).split()


def is_blind_to(answer: str, reference: str) -> bool:
    """ROUGE cannot compare these: a text has words, and no token."""
    return any(text.strip() and not rouge_tokens(text) for text in (answer, reference))


def _same_unread_text(answer: str, reference: str) -> bool:
    return answer.strip() == reference.strip() and any(letter.isalnum() for letter in answer)


def _rouge_n(n: int) -> Metric:
    def rouge(answer: str, reference: str) -> float:
        given, wanted = rouge_tokens(answer), rouge_tokens(reference)
        if not given and not wanted:
            return 1.0 if _same_unread_text(answer, reference) else 0.0
        ours, theirs = _grams(given, n), _grams(wanted, n)
        shared = sum((ours & theirs).values())
        return _f_measure(shared, ours.total(), theirs.total())

    return rouge


def _grams(tokens: list[str], n: int) -> Counter:
    return Counter(tokens) if n == 1 else Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def _rouge_l(answer: str, reference: str) -> float:
    from rapidfuzz.distance import LCSseq

    given, wanted = rouge_tokens(answer), rouge_tokens(reference)
    if not given and not wanted:
        return 1.0 if _same_unread_text(answer, reference) else 0.0
    return _f_measure(LCSseq.similarity(given, wanted), len(given), len(wanted))


def _f_measure(shared: int, ours: int, theirs: int) -> float:
    return 2.0 * shared / (ours + theirs) if shared else 0.0
