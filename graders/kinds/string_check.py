"""string_check: 1 when a text equals, differs from or contains another, else 0. No trimming, no normalising."""

from collections.abc import Iterator
from typing import Any

from graders.kinds.base import INPUT, REFERENCE, Config, Field, Kind, Scorer, Workshop, in_words
from graders.templating import Template, TemplateError
from graders.types import Grade, Problem, Sample

OPERATIONS = {
    "eq": "equals",
    "ne": "differs from",
    "like": "contains",
    "ilike": "contains, in any case",
}


def compile_string_check(config: Config, workshop: Workshop) -> Scorer:
    given = workshop.template(config["input"]).render
    wanted = workshop.template(config["reference"]).render
    operation = config["operation"]
    if operation == "eq":
        return lambda item, sample, trace_id: 1.0 if given(item, sample) == wanted(item, sample) else 0.0
    if operation == "ne":
        return lambda item, sample, trace_id: 1.0 if given(item, sample) != wanted(item, sample) else 0.0
    return _contains(given, wanted, ignores_case=operation == "ilike")


def _contains(given: Any, wanted: Any, *, ignores_case: bool) -> Scorer:
    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float | Grade:
        text, part = given(item, sample), wanted(item, sample)
        if not part:
            return Grade(1.0, details="The reference is empty, and every text contains an empty one.")
        if ignores_case:
            text, part = text.lower(), part.lower()
        return 1.0 if part in text else 0.0

    return score


def _problems(config: Config, path: str) -> Iterator[Problem]:
    if config.get("operation") not in ("like", "ilike"):
        return
    try:
        roots = {variable.root for variable in Template(str(config.get("input", ""))).variables}
        reference = {variable.root for variable in Template(str(config.get("reference", ""))).variables}
    except TemplateError:
        return
    if "sample" not in roots and "sample" in reference:
        yield Problem(
            f"{path}input",
            "sides_swapped",
            "The input holds nothing of the model's answer, but the reference does.",
            "like and ilike ask whether the input contains the reference: swap the two.",
            "warning",
        )


KIND = Kind(
    type="string_check",
    title="Exact text",
    about="1 when the answer equals, differs from or contains a text, else 0.",
    fields=(
        INPUT,
        Field(
            "operation",
            "choice",
            "Comparison",
            "“Contains” means: the answer contains the reference.",
            True,
            "eq",
            tuple(OPERATIONS.items()),
        ),
        REFERENCE,
    ),
    compile=compile_string_check,
    sentence=lambda c: (
        f"{in_words(c.get('input'))} {OPERATIONS.get(c.get('operation', ''), '…')} {in_words(c.get('reference'))}"
    ),
    problems=_problems,
    icon="check",
)
