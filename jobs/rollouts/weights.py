"""The weights in a multi grader's formula, when it is a plain weighted sum. Portable: standard library only."""

import ast
from collections.abc import Mapping
from typing import Any


class _NotLinear(Exception):
    pass


def weights_of(config: Mapping[str, Any]) -> dict[str, float]:
    """`0.6 * conclusion + 0.3 * citations` → {"conclusion": 0.6, "citations": 0.3}; {} when it is anything else."""
    graders = config.get("graders")
    formula = config.get("calculate_output")
    if config.get("type") != "multi" or not isinstance(graders, Mapping) or not isinstance(formula, str):
        return {}
    try:
        constant, weights = _linear(ast.parse(formula, mode="eval").body)
    except (_NotLinear, SyntaxError, ValueError, RecursionError, ZeroDivisionError):
        return {}
    return weights if constant == 0 and set(weights) <= set(graders) else {}


def _linear(node: ast.expr) -> tuple[float, dict[str, float]]:
    """A formula as constant + Σ weight · name."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value), {}
    if isinstance(node, ast.Name):
        return 0.0, {node.id: 1.0}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _times(_linear(node.operand), -1.0)
    if isinstance(node, ast.BinOp):
        return _binary(_linear(node.left), node.op, _linear(node.right))
    raise _NotLinear


def _binary(left: tuple[float, dict], operator: ast.operator, right: tuple[float, dict]) -> tuple[float, dict]:
    if isinstance(operator, ast.Add | ast.Sub):
        sign = 1.0 if isinstance(operator, ast.Add) else -1.0
        names = {**left[1]}
        for name, weight in right[1].items():
            names[name] = names.get(name, 0.0) + sign * weight
        return left[0] + sign * right[0], names
    if isinstance(operator, ast.Mult) and not (left[1] and right[1]):
        return _times(right, left[0]) if not left[1] else _times(left, right[0])
    if isinstance(operator, ast.Div) and not right[1]:
        return _times(left, 1 / right[0])
    raise _NotLinear


def _times(value: tuple[float, dict[str, float]], factor: float) -> tuple[float, dict[str, float]]:
    return value[0] * factor, {name: weight * factor for name, weight in value[1].items()}
