"""Our ROUGE against the package it follows, over texts in many scripts; what scripts it cannot read come to."""

import random

import pytest

from graders.grading import compile_grader
from graders.similarity import metric
from graders.types import Sample
from tests.graders.cases import load_lines

WORDS = {
    "latin": [
        "the",
        "tax",
        "of",
        "a",
        "duty",
        "café",
        "naïve",
        "Zürich",
        "e.g.",
        "42",
        "3.14",
        "don't",
        "co-op",
        "über",
    ],
    "cyrillic": ["налог", "пошлина", "это", "и", "42", "да", "нет"],
    "cjk": ["北京", "東京", "税", "42", "a"],
    "arabic": ["مرحبا", "بالعالم", "7", "tax"],
    "mixed": ["Straße", "STRASSE", "x_y", "ﬁne", "İstanbul", "ß", "１２", "a1b2", "\u2028", "\t", ""],
}


def texts(seed: int, count: int):
    chance = random.Random(seed)
    for _ in range(count):
        words = WORDS[chance.choice(list(WORDS))]
        yield tuple(" ".join(chance.choices(words, k=chance.randrange(0, 14))) for _ in range(2))


def test_rouge_equals_the_package_on_thousands_of_texts():
    from rouge_score.rouge_scorer import RougeScorer

    names = {f"rouge{n}": f"rouge_{n}" for n in [1, 2, 3, 4, 5]} | {"rougeL": "rouge_l"}
    package = RougeScorer(list(names), use_stemmer=False)
    for answer, reference in texts(7, 3000):
        expected = package.score(reference, answer)
        for theirs, ours in names.items():
            if not any(letter.isascii() and letter.isalnum() for letter in answer + reference):
                continue  # the stated exception: equal texts in other scripts
            assert metric(ours)(answer, reference) == pytest.approx(expected[theirs].fmeasure, abs=1e-9), (
                answer,
                reference,
            )


def test_bleu_equals_the_package():
    from sacrebleu import sentence_bleu

    for answer, reference in texts(11, 300):
        assert metric("bleu")(answer, reference) == pytest.approx(
            sentence_bleu(answer, [reference]).score / 100, abs=1e-9
        )


def rouge(answer, reference):
    config = {
        "type": "text_similarity",
        "evaluation_metric": "rouge_1",
        "input": "{{sample.output_text}}",
        "reference": "{{item.r}}",
    }
    return compile_grader(config).grade({"r": reference}, Sample(output_text=answer))


@pytest.mark.parametrize("row", load_lines("c028_rouge_scripts.jsonl") + load_lines("c029_rouge_scripts2.jsonl"))
def test_identical_text_in_any_script_is_1(row):
    assert rouge(row["reference_answer"], row["reference_answer"]).reward == 1.0


def test_different_texts_that_rouge_cannot_read_are_0_with_a_warning():
    grade = rouge("北京是中国首都", "北京是中国的首都")
    assert grade.reward == 0.0
    assert "only the letters a to z" in grade.details


def test_lost_accents_are_not_the_same_word():
    assert rouge("Cristbal est", "Cristóbal está").reward < 1.0


def test_string_check_compares_code_points_as_they_are():
    config = {
        "type": "string_check",
        "operation": "eq",
        "input": "{{sample.output_text}}",
        "reference": "{{item.reference_answer}}",
    }
    composed, decomposed, wide = load_lines("c030_nfc_nfd.jsonl")
    grader = compile_grader(config)
    assert grader.grade(composed, Sample(output_text=decomposed["reference_answer"])).reward == float(
        composed["reference_answer"] == decomposed["reference_answer"]
    )
    assert grader.grade(wide, Sample(output_text="42")).reward == 0.0
