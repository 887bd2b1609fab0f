"""numeric: 1 within a tolerance of the reference number, else 0, or falling linearly when `zero_at` is given."""

from collections.abc import Iterator
from typing import Any

from graders.failures import Ungraded
from graders.kinds.base import INPUT, REFERENCE, Config, Field, Kind, Scorer, Workshop, in_words
from graders.kinds.values import number_in
from graders.types import Grade, Problem, Sample

PLACES = {"whole": "the whole text is the number", "last": "the last number in the text", "only": "the only number"}


def compile_numeric(config: Config, workshop: Workshop) -> Scorer:
    given = workshop.template(config["input"]).render
    wanted = workshop.template(config["reference"]).render
    absolute = float(config.get("tolerance_abs") or 0.0)
    relative = float(config.get("tolerance_rel") or 0.0)
    zero_at = config.get("zero_at")
    place = config.get("extract") or "whole"

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float | Grade:
        reference = number_in(text := wanted(item, sample))
        if reference is None:
            raise Ungraded("other_error", f"The reference is no number: “{text[:80]}”.")
        answer = number_in(text := given(item, sample), place)
        if answer is None:
            return Grade(0.0, details=f"No number was found in the answer: “{text[:80]}”.")
        allowed = max(absolute, relative * abs(reference)) + 1e-12 * max(1.0, abs(reference))
        distance = abs(answer - reference)
        if distance <= allowed:
            return 1.0
        if zero_at:
            limit = float(zero_at) * max(abs(reference), 1e-12)
            return max(0.0, 1.0 - (distance - allowed) / (limit - allowed)) if limit > allowed else 0.0
        return 0.0

    return score


def _problems(config: Config, path: str) -> Iterator[Problem]:
    zero_at, relative = config.get("zero_at"), config.get("tolerance_rel") or 0
    if isinstance(zero_at, int | float) and isinstance(relative, int | float) and 0 < zero_at <= relative:
        yield Problem(
            f"{path}zero_at",
            "zero_inside_tolerance",
            "The reward would reach 0 inside the tolerance.",
            f"Choose more than {relative}, or leave it empty.",
        )


def _sentence(config: Config) -> str:
    parts = [f"± {config['tolerance_abs']}"] if config.get("tolerance_abs") else []
    parts += [f"± {float(config['tolerance_rel']):.3%}"] if config.get("tolerance_rel") else []
    return f"{in_words(config.get('input'))} is the number {in_words(config.get('reference'))} {' or '.join(parts)}".strip()


KIND = Kind(
    type="numeric",
    title="Number",
    about="1 when the answer's number is the reference within a tolerance.",
    fields=(
        INPUT,
        Field("extract", "choice", "Which number", "Where the number stands in the answer.", default="whole",
              choices=tuple(PLACES.items())),
        REFERENCE,
        Field("tolerance_abs", "number", "Tolerance", "In the number's own unit; the larger tolerance counts.", minimum=0),
        Field("tolerance_rel", "number", "Tolerance, share", "0.01 is one per cent of the reference.", minimum=0),
        Field("zero_at", "number", "Falls to 0 at", "Share of the reference at which the reward reaches 0; empty: at once.",
              minimum=0),
    ),
    compile=compile_numeric,
    sentence=_sentence,
    problems=_problems,
    icon="calculator",
    is_ours=True,
)  # fmt: skip
