"""Stored rollouts, and trajectories on their way to storage, as the portable rooms see them."""

from collections.abc import Iterable
from typing import Any

from jobs.attribution.types import CreditRollout, CreditStep
from jobs.rollouts.engine.types import Trajectory
from jobs.rollouts.models import Rollout, Step

#: Longer results are told apart by their start, their length and their end.
_LONG = 20_000


def credit_step(text: str, tool_calls: list[dict], tokens: int, step_reward: float | None) -> CreditStep:
    """One turn. Parallel calls are one step whose names are joined by "+"."""
    if not tool_calls:
        return CreditStep(kind="answer", result=_short(text), tokens=max(1, tokens), step_reward=step_reward)
    return CreditStep(
        kind="tool",
        name="+".join(str(call.get("name", "")) for call in tool_calls),
        arguments="\n".join(str(call.get("arguments", "")) for call in tool_calls),
        result="\n".join(_result(call) for call in tool_calls),
        tokens=max(1, tokens),
        is_error=all(call.get("is_error", False) for call in tool_calls),
        step_reward=step_reward,
    )


def _result(call: dict) -> str:
    """What came back; a result kept apart is told by its digest."""
    return _short(str(call.get("result", ""))) + str(call.get("result_digest", ""))


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}…{len(text)}…{text[-200:]}"


def stored_step(step: Step) -> CreditStep:
    made = credit_step(step.text, step.tool_calls, step.output_tokens, step.step_reward)
    made.reference_logprob = step.reference_logprob
    return made


def stored_rollouts(rollouts: Iterable[Rollout]) -> list[CreditRollout]:
    """Rollouts whose steps were prefetched. The group is batch and item, so batches never mix."""
    return [
        CreditRollout(
            rollout=str(rollout.pk),
            group=f"{rollout.batch_id}:{rollout.group_key}",
            reward=rollout.reward,
            steps=[stored_step(step) for step in sorted(rollout.steps.all(), key=lambda step: step.index)],
            reference_logprob=_number(rollout.extra.get("reference_logprob")),
        )
        for rollout in rollouts
    ]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def trajectory_rollout(*, rollout: str, group: str, reward: float | None, trajectory: Trajectory) -> CreditRollout:
    """A rollout that is not stored yet, for the trainer."""
    steps = [
        credit_step(step.text, [vars(call) for call in step.tool_calls], step.output_tokens, step.step_reward)
        for step in trajectory.steps
    ]
    return CreditRollout(rollout=rollout, group=group, reward=reward, steps=steps)
