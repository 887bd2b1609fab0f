"""Groups of rollouts as JSON lines, the format of `manage.py attribution_compute`. Portable: standard library only."""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from jobs.attribution.types import Credit, CreditRollout, CreditStep


class BadLine(ValueError):
    """A line that is no rollout; the message names the line and what to change."""


def read_rollouts(lines: Iterable[str]) -> list[CreditRollout]:
    """One rollout a line: {"group", "rollout", "reward", "steps": [{"kind", "name", "arguments", "result", …}]}."""
    return list(_rollouts(lines))


def _rollouts(lines: Iterable[str]) -> Iterator[CreditRollout]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_no_constant)
            yield _rollout(row, number)
        except (ValueError, TypeError, KeyError) as exc:
            if isinstance(exc, BadLine):
                raise
            reason = f"the key {exc} is missing" if isinstance(exc, KeyError) else str(exc)
            raise BadLine(f"Line {number}: {reason}. Write one rollout a line, with group, reward and steps.") from exc


def _rollout(row: dict[str, Any], number: int) -> CreditRollout:
    reward = row.get("reward")
    if reward is not None and (isinstance(reward, bool) or not isinstance(reward, int | float)):
        raise BadLine(f"Line {number}: reward is {reward!r}. Write a number, or null for ungraded.")
    before = row.get("reference_logprob")
    return CreditRollout(
        reference_logprob=None if before is None else float(before),
        rollout=str(row.get("rollout", number)),
        group=str(row["group"]),
        reward=None if reward is None or not math.isfinite(reward) else float(reward),
        steps=[_step(step) for step in row["steps"]],
    )


def _step(step: dict[str, Any]) -> CreditStep:
    reward, known = step.get("step_reward"), step.get("reference_logprob")
    return CreditStep(
        kind=str(step.get("kind") or ("tool" if step.get("name") else "answer")),
        name=str(step.get("name") or ""),
        arguments=_text(step.get("arguments")),
        result=_text(step.get("result")),
        tokens=max(1, int(step.get("tokens") or 1)),
        is_error=bool(step.get("is_error", False)),
        step_reward=None if reward is None else float(reward),
        reference_logprob=None if known is None else float(known),
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def credit_row(rollout: CreditRollout, credit: Credit | None, method: str) -> dict[str, Any]:
    """What the command prints for one rollout. Without credit the lists are empty and `reason` says why."""
    if credit is None:
        return {
            "rollout": rollout.rollout,
            "group": rollout.group,
            "method": method,
            "baseline": None,
            "credits": [],
            "low": [],
            "high": [],
            "support": [],
            "reason": _why_none(rollout, method),
        }
    return {
        "rollout": rollout.rollout,
        "group": rollout.group,
        "method": method,
        "baseline": credit.baseline,
        "credits": credit.credits,
        "low": credit.low,
        "high": credit.high,
        "support": credit.support,
        "complete": credit.is_complete,
    }


def _why_none(rollout: CreditRollout, method: str) -> str:
    if rollout.reward is None:
        return "ungraded"
    if not rollout.steps:
        return "no steps"
    if method == "returns_to_go" and all(step.step_reward is None for step in rollout.steps):
        return "no rewards per step"
    if method == "information_gain" and all(step.reference_logprob is None for step in rollout.steps):
        return "no log-probabilities of the reference"
    return "fewer than two graded rollouts in the group"
