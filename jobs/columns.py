"""Columns of the runs table: which there are, which are shown unless a person chose others, and what stands in a cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rftstudio.core.show import show_count, show_reward, show_seconds, show_when

Line = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """`cell` makes the text of one line; `kind` says how it is drawn: text, number, status, spark or gain."""

    key: str
    label: str
    cell: Callable[[Line], Any]
    kind: str = "text"
    is_default: bool = False
    is_wide: bool = True  # left out on a phone


def _plan(name: str) -> Callable[[Line], str]:
    def cell(line: Line) -> str:
        value = line["job"].plan.get(name)
        return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    return cell


def _of(path: str) -> Callable[[Line], str]:
    def cell(line: Line) -> str:
        found: Any = line["job"]
        for name in path.split("."):
            found = getattr(found, name)
        return "–" if found in (None, "") else str(found)

    return cell


COLUMNS: tuple[Column, ...] = (
    Column("status", "Status", lambda line: line["job"].status, "status", True, False),
    Column("base", "Base model", _of("base_model.name"), "text", True),
    Column("baseline", "Baseline", _of("baseline.number"), "text", True),
    Column(
        "steps",
        "Train steps",
        lambda line: f"{line['job'].done_steps:,} of {line['job'].total_steps:,}",
        "number",
        True,
        False,
    ),
    Column("curve", "Train reward", lambda line: line["spark"], "spark", True),
    Column("before", "Baseline reward", lambda line: show_reward(line["baseline"]), "number", True),
    Column("best", "Best validation", lambda line: show_reward(line["best"]), "number", True, False),
    Column("gain", "Gain", lambda line: line["gain"], "gain", True, False),
    Column("launched", "Launched", lambda line: show_when(line["job"].created_at), "text", True),
    Column("last", "Last train reward", lambda line: show_reward(line["last"]), "number"),
    Column("method", "Method", lambda line: line["job"].get_method_display()),
    Column("backend", "Backend", _of("backend")),
    Column("agent", "Agent", _of("baseline.agent_version")),
    Column("grader", "Grader", _of("baseline.grader_version")),
    Column("dataset", "Dataset", _of("baseline.dataset_version")),
    Column("seed", "Seed", _of("seed"), "number"),
    Column("rate", "Learning rate", _plan("learning_rate"), "number"),
    Column("items", "Items per train step", _plan("batch_size"), "number"),
    Column("group", "Rollouts per item", _plan("group_size"), "number"),
    Column("credit", "Credit", _plan("credit")),
    Column("rollouts", "Rollouts", lambda line: show_count((line["job"].result or {}).get("rollouts")), "number"),
    Column("seconds", "Trained for", lambda line: show_seconds((line["job"].result or {}).get("seconds")), "number"),
    Column("by", "Launched by", _of("created_by")),
)
_BY_KEY = {column.key: column for column in COLUMNS}
DEFAULT = tuple(column.key for column in COLUMNS if column.is_default)


def columns_chosen(keys: Sequence[str]) -> list[Column]:
    """The columns of these keys in the table's order; the default ones where none of them is known."""
    known = set(keys) & set(_BY_KEY) or set(DEFAULT)
    return [column for column in COLUMNS if column.key in known]


def cells(line: Line, columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [{"column": column, "value": column.cell(line)} for column in columns]
