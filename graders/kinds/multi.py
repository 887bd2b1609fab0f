"""multi: named graders and a formula over their rewards. A part that could not grade leaves the whole ungraded."""

from collections.abc import Iterator
from typing import Any

from graders.failures import Ungraded
from graders.formula import FUNCTIONS, NAME, Formula, FormulaError, formula_errors
from graders.kinds.base import Config, Field, Kind, Scorer, Workshop
from graders.kinds.together import graded_together
from graders.types import Grade, Problem, Sample


def compile_multi(config: Config, workshop: Workshop) -> Scorer:
    parts = {name: workshop.compile_child(child) for name, child in config["graders"].items()}
    formula = Formula(config["calculate_output"], parts)
    invalid_grade = config.get("invalid_grade")

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> Grade:
        whole = Grade(None)
        values: dict[str, float] = {}
        said: list[str] = []
        for name, grade in graded_together(parts, item, sample, trace_id).items():
            whole.sub_rewards[name] = grade.reward
            whole.parts[name] = grade
            _merge(whole, grade)
            if grade.reward is not None:
                values[name] = grade.reward
            if grade.details:
                said.append(f"{name}: {grade.details}")
        whole.details = " · ".join(said)
        if formula.names <= values.keys():
            whole.reward = _computed(formula, values, whole)
        if whole.reward is None and invalid_grade is not None:
            whole.reward = float(invalid_grade)
        return whole

    return score


def _merge(whole: Grade, part: Grade) -> None:
    whole.errors.update({flag: value for flag, value in part.errors.items() if value})
    for model, counts in part.usage.items():
        total = whole.usage.setdefault(model, {})
        for unit, count in counts.items():
            total[unit] = total.get(unit, 0) + count
    if part.step_rewards and not whole.step_rewards:
        whole.step_rewards = part.step_rewards


def _computed(formula: Formula, values: dict[str, float], whole: Grade) -> float | None:
    try:
        return formula.compute(values)
    except FormulaError as error:
        failure = Ungraded("formula_parse_error", f"The formula has no result here: {error.message}")
        whole.errors[failure.flag] = True
        whole.details = " · ".join(filter(None, [failure.details, whole.details]))
        return None


def _problems(config: Config, path: str) -> Iterator[Problem]:
    graders = config.get("graders")
    names = _names(graders)
    if isinstance(graders, dict) and "type" not in graders:
        yield from _name_problems(graders, path)
    for error in formula_errors(config.get("calculate_output", ""), names):
        yield Problem(f"{path}calculate_output", error.code, error.message, error.fix)
    yield from _unused(config, names, path)


def _names(graders: Any) -> list[str]:
    if isinstance(graders, list):
        return [str(child.get("name", "")) for child in graders if isinstance(child, dict)]
    if isinstance(graders, dict):
        return [name for name, child in graders.items() if isinstance(child, dict)]
    return []


def _name_problems(graders: dict[str, Any], path: str) -> Iterator[Problem]:
    for name in graders:
        if not NAME.fullmatch(name):
            fixed = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name) or "part"
            yield Problem(
                f"{path}graders.{name}",
                "grader_name",
                f"“{name}” cannot be named in a formula.",
                f"Use letters, digits and _, for instance {'_' + fixed if fixed[0].isdigit() else fixed}.",
            )
        elif name in FUNCTIONS:
            yield Problem(
                f"{path}graders.{name}",
                "grader_name",
                f"“{name}” is a function of the formula language.",
                f"Call it {name}_part.",
            )


def _unused(config: Config, names: list[str], path: str) -> Iterator[Problem]:
    try:
        used = Formula(config.get("calculate_output", ""), names).names
    except FormulaError:
        return
    for name in names:
        if name not in used:
            yield Problem(
                f"{path}graders.{name}",
                "grader_unused",
                f"{name} does not count in the formula.",
                "Add it to the formula, or keep it to watch a sub-reward.",
                "warning",
            )


KIND = Kind(
    type="multi",
    title="Several parts",
    about="Named parts, each giving a sub-reward, and a formula that makes the reward.",
    fields=(
        Field("graders", "graders", "Parts", "Each gives a sub-reward under its own name.", True),
        Field("calculate_output", "text", "Formula", "", True),
        Field(
            "invalid_grade", "number", "If grading itself fails", "Empty: the sample is ungraded and leaves the means."
        ),
    ),
    compile=compile_multi,
    sentence=lambda c: str(c.get("calculate_output", "")),
    problems=_problems,
    icon="equal",
)
