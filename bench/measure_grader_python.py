"""Python graders through the sandbox, and similarity graders beside the bare libraries."""

from bench.registry import Figures, measure

TARGET = 5_000


@measure
def grade_python() -> Figures:
    """Python grades per second, warm, two workers; target 5,000."""
    from bench.graders import python_rate, sandbox_times

    return {"grades_per_second": python_rate(), "target": TARGET, **sandbox_times()}


@measure
def grade_similarity() -> Figures:
    """BLEU, GLEU, METEOR and ROUGE graders against the bare library in the same run; target ratio 0.8."""
    from bench.graders import similarity_rates

    return {"target_ratio": 0.8, **similarity_rates()}
