"""Between which two numbers a recipe's rewards lie, as far as the recipe tells. Portable."""

from typing import Any

from graders.formula import Formula, FormulaError
from graders.formula_words import formula_range

Ends = tuple[float, float]

#: Kinds whose reward is a share, or 0 or 1. A program or a server of somebody's own may answer anything.
_SHARES = {
    "string_check", "text_similarity", "label_model", "numeric", "set_f1", "regex", "json_schema", "tool_calls",
    "tool_budget", "token_budget",
}  # fmt: skip


def reward_ends(config: Any) -> Ends | None:
    """The least and the most reward; None where the recipe does not bound it."""
    if not isinstance(config, dict):
        return None
    kind = config.get("type")
    if kind == "score_model":
        low, high = config.get("range") or (0, 1)
        return float(low), float(high)
    if kind == "steps":
        return None if config.get("combine") == "sum" else reward_ends(config.get("grader"))
    if kind == "multi":
        return _formula_ends(config)
    return (0.0, 1.0) if kind in _SHARES else None


def _formula_ends(config: dict[str, Any]) -> Ends | None:
    parts = config.get("graders")
    if not isinstance(parts, dict):
        return None
    try:
        formula = Formula(config.get("calculate_output", ""), parts)
    except FormulaError:
        return None
    ends = {name: found for name in formula.names if (found := reward_ends(parts[name]))}
    found = formula_range(formula, ends) if len(ends) == len(formula.names) else None
    if found is None:
        return None
    spare = config.get("invalid_grade")
    others = [float(spare)] if spare is not None else []
    return min([found.low, *others]), max([found.high, *others])
