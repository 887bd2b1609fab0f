"""tool_calls: the calls the agent made against the expected ones, in any order (F1 over a bag of calls)."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from graders.failures import Ungraded
from graders.kinds.base import Config, Field, Kind, Scorer, Workshop, in_words
from graders.kinds.set_f1 import MEASURES
from graders.kinds.values import call_arguments, call_name, f_score
from graders.types import Grade, Sample


def compile_tool_calls(config: Config, workshop: Workshop) -> Scorer:
    reference = workshop.template(config["reference"])
    with_arguments = (config.get("match") or "name_and_arguments") != "name"
    measure = config.get("measure") or "f1"

    def bag(calls: Iterable[dict[str, Any]]) -> Counter:
        return Counter(
            f"{call_name(call)}({call_arguments(call)})" if with_arguments else call_name(call) for call in calls
        )

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float | Grade:
        wanted = _calls(reference.value(item, sample))
        if wanted is None:
            raise Ungraded("other_error", "The reference is no list of tool calls.")
        ours, theirs = bag(call for call in sample.output_tools if isinstance(call, dict)), bag(wanted)
        reward = f_score(ours, theirs, measure)
        missing, extra = theirs - ours, ours - theirs
        if not missing and not extra:
            return reward
        said = [("not called", missing), ("called in vain", extra)]
        return Grade(
            reward, details="; ".join(f"{word}: {', '.join(sorted(some)[:4])[:160]}" for word, some in said if some)
        )

    return score


def _calls(value: Any) -> list[dict[str, Any]] | None:
    """A list of calls: Chat Completions form, {"name", "arguments"}, or bare names; also inside `tool_calls`."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, dict):
        value = value.get("tool_calls", [value] if "name" in value or "function" in value else None)
    if not isinstance(value, list):
        return None
    calls = [{"name": call} if isinstance(call, str) else call for call in value]
    return calls if all(isinstance(call, dict) for call in calls) else None


KIND = Kind(
    type="tool_calls",
    title="Tool calls",
    about="The agent's tool calls against the expected ones, in any order.",
    fields=(
        Field("reference", "template", "Expected calls", "A list of calls, or of tool names.", True),
        Field("match", "choice", "Compare", "", default="name_and_arguments",
              choices=(("name_and_arguments", "name and arguments"), ("name", "name only"))),
        Field("measure", "choice", "Measure", "", default="f1", choices=tuple(MEASURES.items())),
    ),
    compile=compile_tool_calls,
    sentence=lambda c: f"tool calls match {in_words(c.get('reference'))}",
    icon="tool",
    is_ours=True,
)  # fmt: skip
