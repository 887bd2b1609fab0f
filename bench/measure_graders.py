"""How many grades a second one process gives, template and result included."""

import importlib

from bench.registry import Figures, Unavailable, measure, rate

TARGET = 100_000
ITEM = {"reference_answer": "The duty on 12 crates of pears is 43.20 coins.", "value": 43.2}
TEXT = "The duty on 12 crates of pears is 43.20 coins"
REFERENCE = "{{ item.reference_answer }}"
OUTPUT = "{{ sample.output_text }}"


def _grades_per_second(config: dict, text: str = TEXT) -> Figures:
    try:
        grading = importlib.import_module("graders.grading")
        types = importlib.import_module("graders.types")
    except ImportError as exc:
        raise Unavailable(f"graders are not in this installation: {exc}") from exc
    grader = grading.compile_grader(config)
    try:
        sample = types.Sample(output_text=text)
        grade = grader.grade(ITEM, sample)
        if grade.reward is None:
            raise AssertionError(f"the grader gave no reward: {grade}")
        return {
            "grades_per_second": rate(lambda: grader.grade(ITEM, sample)),
            "target": TARGET,
            "reward": grade.reward,
        }
    finally:
        grader.close()


@measure
def grade_string_check() -> Figures:
    """string_check grades per second in one process; target 100,000."""
    config = {"type": "string_check", "name": "same", "input": OUTPUT, "reference": REFERENCE, "operation": "eq"}
    return _grades_per_second(config)


@measure
def grade_fuzzy_match() -> Figures:
    """text_similarity fuzzy_match grades per second in one process; target 100,000."""
    config = {"type": "text_similarity", "name": "near", "input": OUTPUT, "reference": REFERENCE}
    return _grades_per_second({**config, "evaluation_metric": "fuzzy_match"})


@measure
def grade_numeric() -> Figures:
    """numeric grades per second in one process; target 100,000."""
    config = {"type": "numeric", "name": "close", "input": OUTPUT, "reference": "{{ item.value }}"}
    return _grades_per_second({**config, "tolerance_abs": 0.01}, text="43.2")
