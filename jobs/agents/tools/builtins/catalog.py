"""The built-in tools: what each is called, its usual schema, and how it is made ready for one item."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs.agents.tools.builtins import calculator, corpus, table
from jobs.agents.tools.spec import ToolSpec


@dataclass(frozen=True)
class Builtin:
    """A kind of built-in tool. `ready(spec, item)` returns what answers a call."""

    kind: str
    label: str
    hint: str
    example: str  # settings, for the form's help
    parameters: dict[str, Any]
    ready: Callable[[ToolSpec, dict[str, Any]], Callable[[dict[str, Any]], str]]
    problems: Callable[[dict[str, Any]], list[str]]


BUILTINS: dict[str, Builtin] = {
    builtin.kind: builtin
    for builtin in (
        Builtin(
            "table",
            "Look up in a table",
            "Answers with the row of a table that the agent, or each item, brings along.",
            "item_field: schedule\nkey: good",
            table.PARAMETERS,
            table.ready,
            table.config_problems,
        ),
        Builtin(
            "calculator",
            "Calculate",
            "Exact decimal arithmetic, on an expression or on two numbers.",
            "operation: product",
            calculator.PARAMETERS,
            calculator.ready,
            calculator.config_problems,
        ),
        Builtin(
            "corpus",
            "Search documents",
            "Full-text search over uploaded documents, best match first; mode read answers with a whole one.",
            "mode: search\nlimit: 5",
            corpus.PARAMETERS,
            corpus.ready,
            corpus.config_problems,
        ),
    )
}
