"""tool_budget and token_budget: 1 within the budget, less for each unit above it, never below 0."""

from typing import Any

from graders.failures import Ungraded
from graders.kinds.base import Config, Field, Kind, Scorer, Workshop
from graders.kinds.values import call_name
from graders.types import Grade, Sample


def compile_tool_budget(config: Config, workshop: Workshop) -> Scorer:
    allowed, penalty = int(config["max_calls"]), float(config["penalty"])
    only = set(config.get("tools") or [])

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float | Grade:
        calls = sample.output_tools
        count = sum(call_name(call) in only for call in calls) if only else len(calls)
        above = count - allowed
        if above <= 0:
            return 1.0
        return Grade(max(0.0, 1.0 - penalty * above), details=f"{count} tool calls, {above} above the budget.")

    return score


def compile_token_budget(config: Config, workshop: Workshop) -> Scorer:
    allowed, penalty = int(config["max_tokens"]), float(config["penalty"])

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float | Grade:
        written = tokens_written(sample)
        if written is None:
            raise Ungraded("other_error", "The sample does not say how many tokens were written.")
        above = written - allowed
        if above <= 0:
            return 1.0
        reward = max(0.0, 1.0 - penalty * above / 1000.0)
        return Grade(reward, details=f"{written:,} tokens, {above:,} above the budget.")

    return score


def tokens_written(sample: Sample) -> int | None:
    """Tokens of all turns together; None when nobody counted."""
    for key in ("output_tokens", "completion_tokens"):
        count = sample.usage.get(key)
        if isinstance(count, int | float) and not isinstance(count, bool):
            return int(count)
    counts = [step.get("output_tokens") for step in sample.steps if isinstance(step, dict)]
    if counts and all(isinstance(count, int) for count in counts) and sum(counts):
        return sum(counts)
    return None


TOOL_BUDGET = Kind(
    type="tool_budget",
    title="Tool budget",
    about="1 within a number of tool calls, less for each call above.",
    fields=(
        Field("max_calls", "integer", "Calls allowed", "", True, 10, minimum=0),
        Field("penalty", "number", "Penalty for each call above", "", True, 0.1, minimum=0),
        Field("tools", "words", "Only these tools", "Tool names, one a line; empty counts every call."),
    ),
    compile=compile_tool_budget,
    sentence=lambda c: f"at most {c.get('max_calls', '…')} tool calls, then −{c.get('penalty', '…')} each",
    icon="clock",
    is_ours=True,
)
TOKEN_BUDGET = Kind(
    type="token_budget",
    title="Token budget",
    about="1 within a number of written tokens, less for each 1,000 above.",
    fields=(
        Field("max_tokens", "integer", "Tokens allowed", "What the policy writes, all turns together.", True, 4000, minimum=0),
        Field("penalty", "number", "Penalty for each 1,000 above", "", True, 0.1, minimum=0),
    ),
    compile=compile_token_budget,
    sentence=lambda c: f"at most {c.get('max_tokens', '…')} tokens, then −{c.get('penalty', '…')} for each 1,000",
    icon="clock",
    is_ours=True,
)  # fmt: skip
