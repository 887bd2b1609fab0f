"""steps: another grader applied to every step of the trajectory; a reward per step, and their sum or mean as the whole.

The inner grader sees one step as if it were a whole answer: its text as `sample.output_text`, its calls as
`sample.output_tools`, the step itself as `sample.steps[0]` with tool results, durations and tokens.
"""

import json
from typing import Any

from graders.failures import Ungraded
from graders.kinds.base import Config, Field, Kind, Scorer, Workshop
from graders.types import Grade, Sample

COMBINE = {"mean": "mean", "sum": "sum", "last": "the last step's", "min": "the lowest", "max": "the highest"}


def compile_steps(config: Config, workshop: Workshop) -> Scorer:
    part = workshop.compile_child(config["grader"])
    combine = config.get("combine") or "mean"

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> Grade:
        if not sample.steps:
            raise Ungraded("other_error", "The sample has no steps to grade.")
        grades = [part.grade(item, step_sample(step), trace_id) for step in sample.steps]
        whole = Grade(None, step_rewards=[grade.reward for grade in grades])
        for index, grade in enumerate(grades, 1):
            whole.errors.update(grade.errors)
            for model, counts in grade.usage.items():
                total = whole.usage.setdefault(model, {})
                for unit, count in counts.items():
                    total[unit] = total.get(unit, 0) + count
            if grade.reward is None and not whole.details:
                whole.details = f"Step {index} could not be graded: {grade.details}"
        marks = [mark for mark in whole.step_rewards if mark is not None]
        if len(marks) == len(grades):
            whole.reward = _combined(marks, combine)
        return whole

    return score


def step_sample(step: dict[str, Any]) -> Sample:
    """One step as a sample of its own."""
    text = str(step.get("text") or "")
    calls = [
        {
            "id": str(call.get("id", "")),
            "type": "function",
            "function": {"name": str(call.get("name", "")), "arguments": str(call.get("arguments", ""))},
        }
        for call in step.get("tool_calls") or []
        if isinstance(call, dict)
    ]
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    usage = {"output_tokens": step["output_tokens"]} if isinstance(step.get("output_tokens"), int) else {}
    return Sample(output_text=text, output_json=parsed, output_tools=calls, steps=[step], usage=usage)


def _combined(marks: list[float], combine: str) -> float:
    if combine == "mean":
        return sum(marks) / len(marks)
    return {"sum": sum, "last": lambda several: several[-1], "min": min, "max": max}[combine](marks)


KIND = Kind(
    type="steps",
    title="Every step",
    about="Grades each step of the trajectory; the whole is their mean, sum or extreme.",
    fields=(
        Field("grader", "grader", "Grader of a step", "Sees one step as if it were a whole answer.", True),
        Field("combine", "choice", "The whole is", "", default="mean", choices=tuple(COMBINE.items())),
    ),
    compile=compile_steps,
    sentence=lambda c: f"{COMBINE.get(c.get('combine') or 'mean', '')} over the steps",
    icon="rollout",
    is_ours=True,
)
