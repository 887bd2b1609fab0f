"""Grades a second in one process, template and result included."""

import time
from typing import Any

from graders.grading import compile_grader
from graders.types import Sample

TARGET = 100_000
SECONDS = 1.0
ITEM = {"reference_answer": "The duty on 12 crates of pears is 43.20 coins.", "value": 43.2}
SENTENCE = "The duty on 12 crates of pears is 43.20 coins"
OUTPUT = {"input": "{{ sample.output_text }}"}
SAME = {**OUTPUT, "reference": "{{ item.reference_answer }}"}
GRADERS: dict[str, tuple[dict[str, Any], str]] = {
    "string_check": ({"type": "string_check", "name": "same", "operation": "eq", **SAME}, SENTENCE),
    "fuzzy_match": (
        {"type": "text_similarity", "name": "near", "evaluation_metric": "fuzzy_match", **SAME},
        SENTENCE,
    ),
    "numeric": (
        {"type": "numeric", "name": "close", "reference": "{{ item.value }}", "tolerance_abs": 0.01, **OUTPUT},
        "43.2",
    ),
}


def measures() -> list[dict[str, Any]]:
    """One line a grader."""
    return [_measure(name, config, text) for name, (config, text) in GRADERS.items()]


def _measure(name: str, config: dict[str, Any], text: str) -> dict[str, Any]:
    grader, sample = compile_grader(config), Sample(output_text=text)
    try:
        grade = grader.grade(ITEM, sample)
        if grade.reward is None:
            raise RuntimeError(f"{name} gave no reward: {grade.details}")
        rate = max(_rate(grader, sample) for _ in range(3))  # whatever else the machine does only slows
    finally:
        grader.close()
    return {
        "room": "graders",
        "name": f"{name} grades/s",
        "value": round(rate),
        "target": TARGET,
        "met": rate >= TARGET,
    }


def _rate(grader: Any, sample: Sample, batch: int = 1000) -> float:
    count, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < SECONDS / 3:
        for _ in range(batch):
            grader.grade(ITEM, sample)
        count += batch
    return count / passed
