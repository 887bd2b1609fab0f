"""A policy that says what a test wrote down."""

import asyncio
import itertools
from typing import Any

from jobs.rollouts.engine.types import PolicyReply

_ids = itertools.count(1)


def call(name: str, arguments: str = "{}", *, call_id: str | None = None) -> dict[str, Any]:
    """A tool call as a model writes it; `call_id=""` gives none."""
    made = f"call_{next(_ids)}" if call_id is None else call_id
    return {"id": made, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made: dict[str, Any], text: str = "", tokens: int = 5) -> PolicyReply:
    return PolicyReply(
        text=text, tool_calls=list(made), finish_reason="tool_calls", input_tokens=10, output_tokens=tokens
    )


def says(text: str, tokens: int = 5, finish_reason: str = "stop") -> PolicyReply:
    return PolicyReply(text=text, finish_reason=finish_reason, input_tokens=10, output_tokens=tokens)


class ScriptedPolicy:
    """Gives the scripted replies in order, the last one again and again. An exception in the script is raised."""

    def __init__(self, *script: PolicyReply | Exception, seconds: float = 0.0) -> None:
        self.script = list(script)
        self.seconds = seconds
        self.seen: list[list[dict[str, Any]]] = []
        self.tools: list[dict[str, Any]] = []

    async def reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> PolicyReply:
        await asyncio.sleep(self.seconds)
        self.tools = tools
        self.seen.append([dict(message) for message in messages])
        said = self.script[min(len(self.seen), len(self.script)) - 1]
        if isinstance(said, Exception):
            raise said
        return said
