"""Speed of the graders room: Python in the sandbox, and text similarity against the bare libraries in the same run."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from graders.clients import GraderClients
from graders.grading import compile_grader
from graders.sandbox import Sandbox
from graders.sandbox_process import PythonFailed, PythonLimits
from graders.types import Sample

ANSWER = "The place of supply is Germany, under the general rule for services between businesses, Article 44. " * 2
REFERENCE = "The service is taxed in Germany by the general rule for services between businesses (Article 44). " * 2
TEMPLATES = {"input": "{{ sample.output_text }}", "reference": "{{ item.reference_answer }}"}
ITEM = {"reference_answer": REFERENCE}
PYTHON = """
import re
from rapidfuzz import fuzz

def grade(sample, item):
    answer, wanted = sample["output_text"], item["reference_answer"]
    found = set(re.findall(r"Article \\\\d+", answer)) & set(re.findall(r"Article \\\\d+", wanted))
    return 0.5 * bool(found) + 0.5 * fuzz.ratio(answer, wanted) / 100
"""
SECONDS = 1.0  # for each figure
LOOP = "def grade(sample, item):\n    while item['loops']:\n        pass\n    return 1.0"


def rate(call: Callable[[], Any], batch: int = 1000) -> float:
    """Calls a second: the best of three stretches, since whatever else the machine does only slows."""
    best = 0.0
    for _ in range(3):
        count, started = 0, time.perf_counter()
        while (passed := time.perf_counter() - started) < SECONDS / 3:
            for _ in range(batch):
                call()
            count += batch
        best = max(best, count / passed)
    return round(best, 1)


def python_rate(threads: int = 2) -> float:
    """Grades a second of a realistic Python grader through the grading service, warm."""
    pool = Sandbox(max_workers=threads)
    clients = GraderClients(owner="bench", sandbox=pool)
    try:
        with compile_grader({"type": "python", "source": PYTHON}, clients) as grader:
            sample = Sample(output_text=ANSWER)
            assert grader.grade(ITEM, sample).reward, "the grader gave no reward"  # noqa: S101
            ends_at = time.perf_counter() + 2 * SECONDS

            def many(_: int) -> int:
                count = 0
                while time.perf_counter() < ends_at:
                    grader.grade(ITEM, sample)
                    count += 1
                return count

            with ThreadPoolExecutor(threads) as workers:
                started = time.perf_counter()
                done = sum(workers.map(many, range(threads)))
                return round(done / (time.perf_counter() - started), 1)
    finally:
        pool.close()


def sandbox_times() -> dict[str, float]:
    """Milliseconds: the zygote with its self-test, a new worker's first grade, and what a time-out costs beyond its limit."""
    limits = PythonLimits(seconds=0.5)
    pool = Sandbox()
    try:
        started = time.perf_counter()
        pool.start()
        ready = time.perf_counter() - started
        started = time.perf_counter()
        pool.run("bench", LOOP, {}, {"loops": False}, limits)
        first = time.perf_counter() - started
        started = time.perf_counter()
        try:
            pool.run("bench", LOOP, {}, {"loops": True}, limits)
        except PythonFailed:
            beyond = time.perf_counter() - started - limits.seconds
        return {"start_ms": _ms(ready), "new_worker_ms": _ms(first), "timeout_overhead_ms": _ms(beyond)}
    finally:
        pool.close()


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


def bare_metrics() -> dict[str, Callable[[], Any]]:
    """Each metric as the bare library would be called for the same pair."""
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.gleu_score import sentence_gleu
    from nltk.translate.meteor_score import meteor_score
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu import sentence_bleu

    from graders.similarity import _NoWordNet

    stemmer = PorterStemmer()
    rouge = {name: RougeScorer([name], use_stemmer=False) for name in ("rouge1", "rouge2", "rougeL")}
    return {
        "bleu": lambda: sentence_bleu(ANSWER, [REFERENCE]).score,
        "gleu": lambda: sentence_gleu([REFERENCE.split()], ANSWER.split()),
        "meteor": lambda: meteor_score([REFERENCE.split()], ANSWER.split(), stemmer=stemmer, wordnet=_NoWordNet),
        "rouge_1": lambda: rouge["rouge1"].score(REFERENCE, ANSWER)["rouge1"].fmeasure,
        "rouge_2": lambda: rouge["rouge2"].score(REFERENCE, ANSWER)["rouge2"].fmeasure,
        "rouge_l": lambda: rouge["rougeL"].score(REFERENCE, ANSWER)["rougeL"].fmeasure,
    }


def similarity_rates() -> dict[str, dict[str, float]]:
    """Grades a second beside the bare library's, and their ratio; 0.8 is wanted."""
    figures = {}
    for name, bare in bare_metrics().items():
        grader = compile_grader({"type": "text_similarity", "evaluation_metric": name, **TEMPLATES})
        sample = Sample(output_text=ANSWER)
        ours = rate(lambda grader=grader, sample=sample: grader.grade(ITEM, sample), batch=20)
        theirs = rate(bare, batch=20)
        figures[name] = {"grades_per_second": ours, "library_per_second": theirs, "ratio": round(ours / theirs, 2)}
    return figures


def kind_rate(config: dict[str, Any], answer: str = ANSWER, item: dict[str, Any] | None = None) -> float:
    """Grades a second of one recipe in this process."""
    with compile_grader(config) as grader:
        sample = Sample(output_text=answer)
        return rate(lambda: grader.grade(item or ITEM, sample))


def measures() -> dict[str, Any]:
    """All of the above by name."""
    exact = {"type": "string_check", "operation": "eq", **TEMPLATES}
    near = {"type": "text_similarity", "evaluation_metric": "fuzzy_match", **TEMPLATES}
    return {
        "python_grades_per_second": python_rate(),
        "sandbox": sandbox_times(),
        "string_check_per_second": kind_rate(exact),
        "fuzzy_match_per_second": kind_rate(near),
        "numeric_per_second": kind_rate({"type": "numeric", **TEMPLATES}, "43.20", {"reference_answer": "43.2"}),
        "similarity": similarity_rates(),
    }
