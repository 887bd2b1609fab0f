"""text_similarity: how alike two texts are, 0 to 1. Which library function each metric is: graders/similarity.py."""

from collections.abc import Iterator
from typing import Any

from graders.kinds.base import INPUT, REFERENCE, Config, Field, Kind, Scorer, Workshop, in_words
from graders.similarity import METRICS, NOT_LATIN, is_blind_to, metric
from graders.types import Grade, Problem, Sample


def compile_text_similarity(config: Config, workshop: Workshop) -> Scorer:
    given = workshop.template(config["input"]).render
    wanted = workshop.template(config["reference"]).render
    name = config["evaluation_metric"]
    alike = metric(name)
    if not name.startswith("rouge_"):
        return lambda item, sample, trace_id: alike(given(item, sample), wanted(item, sample))

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float | Grade:
        answer, reference = given(item, sample), wanted(item, sample)
        reward = alike(answer, reference)
        if not reward and is_blind_to(answer, reference):
            return Grade(reward, details=NOT_LATIN)
        return reward

    return score


def _problems(config: Config, path: str) -> Iterator[Problem]:
    if config.get("evaluation_metric") == "cosine":
        yield Problem(
            f"{path}evaluation_metric",
            "unsupported_metric",
            "cosine needs an embedding model and was never allowed in reinforcement fine-tuning.",
            "Use fuzzy_match for spelling, rouge_l or meteor for wording, or a judge (score_model) for meaning.",
        )


KIND = Kind(
    type="text_similarity",
    title="Similar text",
    about="How alike the answer and a reference text are, 0 to 1.",
    fields=(
        INPUT,
        Field("evaluation_metric", "choice", "Measure", "", True, "fuzzy_match", tuple(METRICS.items())),
        REFERENCE,
    ),
    compile=compile_text_similarity,
    sentence=lambda c: (
        f"{in_words(c.get('input'))} resembles {in_words(c.get('reference'))} ({c.get('evaluation_metric', '…')})"
    ),
    problems=_problems,
    icon="document",
)
