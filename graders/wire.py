"""A grade in the shape of the reference's `graders/run` answer. Portable."""

from typing import Any

from graders.types import Grade


def run_answer(config: dict[str, Any], grade: Grade) -> dict[str, Any]:
    """All required keys; an ungraded sample has reward 0 there, with its flags, because the wire knows no null."""
    usage = {model: _counted(counts) for model, counts in grade.usage.items()}
    parts = {name: 0.0 if reward is None else reward for name, reward in grade.sub_rewards.items()}
    return {
        "reward": 0.0 if grade.reward is None else grade.reward,
        "metadata": {
            "name": str(config.get("name") or "grader"),
            "type": str(config.get("type")),
            "errors": grade.wire_errors(),
            "execution_time": grade.milliseconds / 1000.0,
            "scores": parts,
            "token_usage": sum(counts["total_tokens"] for counts in usage.values()) if usage else None,
            "sampled_model_name": next(iter(usage), None),
        },
        "sub_rewards": parts,
        "model_grader_token_usage_per_model": usage,
    }


def _counted(counts: dict[str, int]) -> dict[str, int]:
    names = ("prompt_tokens", "total_tokens", "completion_tokens", "cached_tokens")
    return {name: int(counts.get(name, 0)) for name in names}
