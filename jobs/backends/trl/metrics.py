"""Metrics of a train step under the keys of the hosted service's metrics event, and ours beside them.

Means of rewards are over graded rollouts: an ungraded one is counted (`mean_unresponsive_rewards`), never averaged in.
Standard library only.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from statistics import fmean, pstdev
from typing import Any

from graders.types import is_pass
from jobs.backends.trl.scoring import Scored, grader_parts

ERRORS = ("other_error", "sample_parse_error", "invalid_variable_error")
ERRORS_OF_KIND = {
    "python": ("python_grader_server_error", "python_grader_runtime_error"),
    "score_model": ("model_grader_server_error", "model_grader_refusal_error", "model_grader_parse_error"),
    "label_model": ("model_grader_server_error", "model_grader_refusal_error", "model_grader_parse_error"),
}


def step_metrics(
    config: dict[str, Any], train: list[Scored], valid: list[Scored] | None, *, step: int, total_steps: int
) -> dict[str, Any]:
    """The wire's keys for one train step. Validation parts are there only when validation ran."""
    phases = {"train": train, **({"valid": valid} if valid is not None else {})}
    metrics: dict[str, Any] = {
        "step": step,
        "total_steps": total_steps,
        "train_mean_reward": mean_reward(train),
        "reasoning_tokens_mean": 0.0,  # the policy's tokens are not told apart by kind
        "completion_tokens_mean": mean(_tokens(one) for one in train),
        "mean_unresponsive_rewards": mean(float(one.reward is None) for one in train),
        "scores": {"graders": _graders(config, phases, _score_keys), **_reward_keys(phases)},
        "usage": {"graders": _graders(config, phases, _usage_keys), "samples": _sample_usage(phases)},
        "errors": {"graders": _graders(config, phases, _error_keys)},
        "timing": {"step": {}, "graders": _graders(config, phases, _latency)},
        "model_graders_token_usage": _model_usage(phases),
    }
    if valid is not None:
        metrics["full_valid_mean_reward"] = mean_reward(valid)
        metrics["full_valid_mean_parse_error"] = mean(float(_flag(one, "sample_parse_error")) for one in valid)
        metrics["valid_reasoning_tokens_mean"] = 0.0
    return metrics


def own_metrics(train: list[Scored], valid: list[Scored] | None, *, pass_threshold: float) -> dict[str, Any]:
    """What the wire has no key for: tools, groups without signal, stop reasons, pass rates."""
    rewards = [one.reward for one in train if one.reward is not None]
    found = {
        "reward_std": pstdev(rewards) if rewards else None,
        "pass_rate": pass_rate(train, pass_threshold),
        "zero_variance_share": zero_variance_share(train),
        "tools": tool_rates(train),
        "tool_calls_mean": mean(float(len(one.outcome.trajectory.tool_calls)) for one in train),
        "tool_error_rate": mean(float(call.is_error) for one in train for call in one.outcome.trajectory.tool_calls),
        "steps_mean": mean(float(len(one.outcome.trajectory.steps)) for one in train),
        "stop_reasons": dict(Counter(one.outcome.trajectory.stop_reason for one in train)),
        "ungraded": sum(one.reward is None for one in train),
    }
    if valid is not None:
        found["valid_pass_rate"] = pass_rate(valid, pass_threshold)
        found["valid_rollouts"] = len(valid)
        found["valid_tools"] = tool_rates(valid)
    return found


def mean(values: Iterable[float]) -> float | None:
    """The mean, or None of nothing: numbers are never invented."""
    values = list(values)
    return fmean(values) if values else None


def mean_reward(scored: list[Scored]) -> float | None:
    return mean(one.reward for one in scored if one.reward is not None)


def pass_rate(scored: list[Scored], threshold: float) -> float | None:
    return mean(float(is_pass(one.reward, threshold)) for one in scored if one.reward is not None)


def tool_rates(scored: list[Scored]) -> dict[str, float]:
    """Calls of each tool per rollout."""
    calls = Counter(call.name for one in scored for call in one.outcome.trajectory.tool_calls)
    return {name: count / len(scored) for name, count in sorted(calls.items())}


def zero_variance_share(scored: list[Scored]) -> float | None:
    """Share of groups whose graded rewards are all alike: they teach nothing."""
    groups: dict[str, set[float]] = defaultdict(set)
    for one in scored:
        if one.reward is not None:
            groups[one.outcome.trial.key].add(one.reward)
    return mean(float(len(rewards) < 2) for rewards in groups.values())


def _graders(config: dict[str, Any], phases: dict[str, list[Scored]], keys: Callable) -> list[dict[str, Any]]:
    rows = []
    for name, part in grader_parts(config).items():
        row = {"name": name, "type": part.get("type", "")}
        for phase, scored in phases.items():
            row |= keys(phase, name, part, scored)
        rows.append(row)
    return rows


def _reward_keys(phases: dict[str, list[Scored]]) -> dict[str, Any]:
    return {f"{phase}_reward_mean": mean_reward(scored) for phase, scored in phases.items()}


def _score_keys(phase: str, name: str, part: dict, scored: list[Scored]) -> dict[str, Any]:
    values = [one.grade.sub_rewards.get(name, None if one.grade.sub_rewards else one.reward) for one in scored]
    return {f"{phase}_reward_mean": mean(value for value in values if value is not None)}


def _usage_keys(phase: str, name: str, part: dict, scored: list[Scored]) -> dict[str, Any]:
    usage = [counts for one in scored for model, counts in one.grade.usage.items() if model == part.get("model")]
    keys = {"model": part.get("model")} if part.get("model") else {}
    for kind in ("prompt_tokens", "completion_tokens"):
        keys[f"{phase}_{kind}_mean"] = mean(float(counts.get(kind, 0)) for counts in usage)
        keys[f"{phase}_{kind}_count"] = float(sum(counts.get(kind, 0) for counts in usage))
    return keys


def _sample_usage(phases: dict[str, list[Scored]]) -> dict[str, float | None]:
    keys: dict[str, float | None] = {}
    for phase in phases:
        keys |= {f"{phase}_reasoning_tokens_mean": 0.0, f"{phase}_reasoning_tokens_count": 0.0}
    return keys


def _error_keys(phase: str, name: str, part: dict, scored: list[Scored]) -> dict[str, Any]:
    keys = {}
    for flag in ERRORS + ERRORS_OF_KIND.get(part.get("type", ""), ()):
        hits = [float(_flag(one, flag)) for one in scored]
        keys |= {f"{phase}_{flag}_mean": mean(hits), f"{phase}_{flag}_count": sum(hits)}
    return keys


def _latency(phase: str, name: str, part: dict, scored: list[Scored]) -> dict[str, Any]:
    seconds = [one.grade.milliseconds / 1000 for one in scored if one.reward is not None]
    return {f"{phase}_execution_latency_mean": mean(seconds)}


def _model_usage(phases: dict[str, list[Scored]]) -> dict[str, dict[str, int]]:
    usage: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for phase, scored in phases.items():
        prefix = "eval" if phase == "valid" else phase
        for one in scored:
            for model, counts in one.grade.usage.items():
                for kind in ("prompt_tokens", "completion_tokens", "cached_tokens"):
                    usage[model][f"{prefix}_{kind}"] += int(counts.get(kind, 0))
    return {model: dict(counts) for model, counts in usage.items()}


def _tokens(one: Scored) -> float:
    return float(one.outcome.trajectory.output_tokens)


def _flag(one: Scored, name: str) -> bool:
    return bool(one.grade.errors.get(name))
