"""What a tool call may take and what it comes to. Portable: standard library only."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """When a rollout is ended although the policy would go on. Tokens count what the policy writes."""

    max_steps: int = 10
    max_tool_calls: int = 20
    max_tokens: int = 8192
    max_seconds: float = 600.0
    max_result_bytes: int = 1_000_000
    tool_seconds: float = 600.0
    tool_retries: int = 3
    parallel_tools: int = 8


@dataclass
class ToolResult:
    """What a tool call came to. `fatal` ends the rollout as tool_failed (the reference's 5xx rule)."""

    output: str
    is_error: bool = False
    fatal: bool = False
    milliseconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def limits_from(values: dict) -> Limits:
    """Limits from an agent version's JSON; keys it does not know are left out, absent ones keep their default."""
    return Limits(**{key: values[key] for key in Limits.__dataclass_fields__ if values.get(key) is not None})
