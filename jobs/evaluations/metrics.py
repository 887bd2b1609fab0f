"""What an evaluation's rollouts come to: every metric with its formula and denominator. Portable.

Ungraded rollouts (failed, or the grader gave no number) are counted and never averaged in as zeros.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from graders.types import is_pass
from jobs.evaluations import intervals

#: A group whose rewards differ by this share of the reward range has something to learn from.
LEARNABLE_SPREAD = 0.10
#: Equal rewards may differ in the last bits when they come from sums of floats.
EQUAL = 1e-9
BINS = 20


@dataclass(frozen=True)
class ToolUse:
    """One tool call, as far as metrics look at it."""

    name: str
    milliseconds: float = 0.0
    is_error: bool = False


@dataclass(frozen=True)
class RolloutRow:
    """One finished rollout as metrics see it. `reward` None or not finite is ungraded."""

    group: str
    reward: float | None
    passed: bool | None = None  # None: decided by the threshold
    status: str = "done"
    stop_reason: str = "answered"
    error: str = ""
    steps: int = 0
    tools: tuple[ToolUse, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    milliseconds: float | None = None
    cost_usd: float | None = None
    sub_rewards: dict[str, float | None] = field(default_factory=dict)
    title: str = ""

    @property
    def is_graded(self) -> bool:
        return self.reward is not None and math.isfinite(self.reward)

    def passes(self, threshold: float) -> bool:
        return self.is_graded and (self.passed if self.passed is not None else is_pass(self.reward, threshold))


@dataclass(frozen=True)
class Metric:
    """What a number is called and how it came about; shown on hover."""

    key: str
    name: str
    formula: str
    denominator: str


METRICS: dict[str, Metric] = {
    metric.key: metric
    for metric in (
        Metric("mean_reward", "Mean reward", "sum of rewards ÷ graded rollouts; t interval over items", "graded"),
        Metric(
            "pass_rate",
            "Pass rate",
            "rollouts at or above the pass mark ÷ graded rollouts; Wilson interval, trials lowered by the likeness "
            "of one item's rollouts",
            "graded",
        ),
        Metric("pass_rate_of_all", "Pass rate of all", "rollouts at or above the pass mark ÷ all rollouts", "rollouts"),
        Metric("pass_at_k", "Pass@k", "mean over items of 1 − C(n−c, k) ÷ C(n, k)", "items with k graded rollouts"),
        Metric("pass_hat_k", "Pass^k", "mean over items of C(c, k) ÷ C(n, k)", "items with k graded rollouts"),
        Metric("best_of_k", "Best of k", "mean over items of the highest reward", "items with a graded rollout"),
        Metric(
            "zero_variance_share",
            "Groups all alike",
            "items whose graded rewards are all equal ÷ items with two or more graded rollouts",
            "groups",
        ),
        Metric(
            "learnable_share",
            "Items with signal",
            "items whose rewards have a standard deviation of 0.10 of the reward range or more ÷ items with two or "
            "more graded rollouts",
            "groups",
        ),
        Metric("full_score_share", "Full score", "rollouts with a reward of 1 or more ÷ graded rollouts", "graded"),
        Metric("ungraded_share", "Ungraded", "rollouts without a reward ÷ all rollouts", "rollouts"),
        Metric("tool_calls_mean", "Tool calls", "tool calls ÷ rollouts that ran", "ran"),
        Metric("tool_error_share", "Tool errors", "tool calls answered with an error ÷ tool calls", "tool_calls"),
        Metric("output_tokens_mean", "Tokens written", "tokens the policy wrote ÷ rollouts that ran", "ran"),
    )
}


def pass_at(n: int, c: int, k: int) -> float:
    """Chance that one of k tries drawn without return passes, c of n having passed. Unbiased for k tries."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat(n: int, c: int, k: int) -> float:
    """Chance that k tries drawn without return all pass, c of n having passed."""
    return math.comb(c, k) / math.comb(n, k)


def spread_of(rewards: Sequence[float]) -> float:
    """Standard deviation with the number of rewards as divisor: how much there is to compare inside a group."""
    mean = sum(rewards) / len(rewards)
    return math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))


def are_alike(rewards: Sequence[float]) -> bool:
    return max(rewards) - min(rewards) <= EQUAL


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return sum(values) / len(values) if values else None


def reward_range(rewards: Sequence[float]) -> tuple[float, float]:
    """0 to 1, widened to what was seen."""
    return min([0.0, *rewards]), max([1.0, *rewards])


@dataclass(frozen=True)
class ItemFigures:
    """One item's rollouts: a mark of the variance plot."""

    key: str
    title: str
    rollouts: int
    graded: int
    passed: int
    mean: float | None
    spread: float | None
    best: float | None
    kind: str  # signal, low, high, alike or ungraded


def item_kind(mean: float, spread: float, *, low: float, high: float, passed: int, graded: int) -> str:
    """Why an item does or does not teach: `signal`, or all alike at the bottom, at the top, or between."""
    width = high - low
    if spread >= LEARNABLE_SPREAD * width:
        return "signal"
    if passed == graded or mean >= high - 0.1 * width:
        return "high"
    return "low" if mean <= low + 0.1 * width else "alike"


def item_figures(rows: Iterable[RolloutRow], *, pass_threshold: float) -> list[ItemFigures]:
    """One line for each item, in the order of first appearance."""
    groups: dict[str, list[RolloutRow]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    low, high = reward_range([row.reward for group in groups.values() for row in group if row.is_graded])
    figures = []
    for key, group in groups.items():
        rewards = [row.reward for row in group if row.is_graded]
        passed = sum(row.passes(pass_threshold) for row in group)
        title = next((row.title for row in group if row.title), key)
        if not rewards:
            figures.append(ItemFigures(key, title, len(group), 0, 0, None, None, None, "ungraded"))
            continue
        mean, spread = sum(rewards) / len(rewards), spread_of(rewards)
        kind = item_kind(mean, spread, low=low, high=high, passed=passed, graded=len(rewards))
        figures.append(ItemFigures(key, title, len(group), len(rewards), passed, mean, spread, max(rewards), kind))
    return figures


def _tries(figures: list[ItemFigures], k: int) -> tuple[float | None, float | None, int]:
    """pass@k and pass^k over the items with at least k graded rollouts, and how many those are."""
    able = [item for item in figures if item.graded >= k]
    at = _mean(pass_at(item.graded, item.passed, k) for item in able)
    hat = _mean(pass_hat(item.graded, item.passed, k) for item in able)
    return at, hat, len(able)


def tool_figures(rows: Sequence[RolloutRow]) -> list[dict[str, Any]]:
    """One line for each tool, most used first. `reward_difference` is a correlation, not an effect."""
    calls: dict[str, list[ToolUse]] = defaultdict(list)
    for row in rows:
        for use in row.tools:
            calls[use.name].append(use)
    lines = []
    for name, uses in sorted(calls.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        used = [row.reward for row in rows if row.is_graded and any(use.name == name for use in row.tools)]
        unused = [row.reward for row in rows if row.is_graded and not any(use.name == name for use in row.tools)]
        errors = sum(use.is_error for use in uses)
        with_it, without_it = _mean(used), _mean(unused)
        known = with_it is not None and without_it is not None
        lines.append(
            {
                "name": name,
                "calls": len(uses),
                "calls_each": len(uses) / len(rows),
                "errors": errors,
                "error_share": errors / len(uses),
                "p95_milliseconds": percentile([use.milliseconds for use in uses], 0.95),
                "rollouts": len(used),
                "reward_if_used": with_it,
                "reward_difference": with_it - without_it if known else None,
            }
        )
    return lines


def histogram(rewards: Sequence[float], *, bins: int = BINS) -> dict[str, Any]:
    """Counts over equal bins of the reward range; the last bin includes its upper edge."""
    low, high = reward_range(rewards)
    counts = [0] * bins
    for reward in rewards:
        counts[min(bins - 1, int((reward - low) / (high - low) * bins))] += 1
    return {"low": low, "high": high, "counts": counts}


def failure_causes(rows: Iterable[RolloutRow]) -> list[dict[str, Any]]:
    """Ungraded rollouts grouped by why, most frequent first, with one example of the words."""
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if not row.is_graded:
            cause = row.stop_reason if row.stop_reason not in {"", "answered"} else "grader_failed"
            groups[cause].append(row.error)
    lines = []
    for cause, errors in groups.items():
        words = Counter(error for error in errors if error).most_common(1)
        lines.append({"cause": cause, "rollouts": len(errors), "example": words[0][0][:400] if words else ""})
    return sorted(lines, key=lambda line: (-line["rollouts"], line["cause"]))


def _reward_figures(graded: list[RolloutRow], groups: list[list[float]]) -> dict[str, Any]:
    rewards = [row.reward for row in graded]
    interval = intervals.mean_interval(groups)
    count = len(rewards)
    spread = spread_of(rewards) if rewards else None
    ordered = sorted(rewards)
    middle = ordered[(count - 1) // 2 : count // 2 + 1]
    return {
        "mean_reward": _mean(rewards),
        "mean_reward_low": interval[0] if interval else None,
        "mean_reward_high": interval[1] if interval else None,
        "median_reward": _mean(middle),
        "std_reward": spread,
        "std_reward_sample": spread * math.sqrt(count / (count - 1)) if count > 1 else None,
        "full_score_share": sum(reward >= 1 - EQUAL for reward in rewards) / count if count else None,
        "distinct_rewards": len({round(reward, 9) for reward in rewards}),
    }


def _pass_figures(rows: list[RolloutRow], graded: list[RolloutRow], threshold: float) -> dict[str, Any]:
    by_group: dict[str, list[bool]] = defaultdict(list)
    for row in graded:
        by_group[row.group].append(row.passes(threshold))
    passed = sum(map(sum, by_group.values()))
    interval = intervals.share_interval(list(by_group.values()))
    return {
        "pass_threshold": threshold,
        "passed": passed,
        "pass_rate": passed / len(graded) if graded else None,
        "pass_rate_low": interval[0] if interval else None,
        "pass_rate_high": interval[1] if interval else None,
        "pass_rate_of_all": passed / len(rows) if rows else None,
    }


def _group_figures(figures: list[ItemFigures], rewards_of: dict[str, list[float]]) -> dict[str, Any]:
    compared = [item for item in figures if item.graded >= 2]
    flat = [item for item in compared if are_alike(rewards_of[item.key])]
    kinds = Counter(item.kind for item in figures)
    k = max((item.rollouts for item in figures), default=0)
    tries = {number: _tries(figures, number) for number in range(1, k + 1)}
    at, hat, able = tries.get(k, (None, None, 0))
    low, high = reward_range([reward for rewards in rewards_of.values() for reward in rewards])
    return {
        "items": len(figures),
        "samples_per_item": k,
        "pass_at_k": at,
        "pass_hat_k": hat,
        "pass_k_items": able,
        "pass_at": {str(number): value[0] for number, value in tries.items()},
        "pass_hat": {str(number): value[1] for number, value in tries.items()},
        "best_of_k": _mean(item.best for item in figures if item.best is not None),
        "groups": len(compared),
        "groups_zero_variance": len(flat),
        "zero_variance_share": len(flat) / len(compared) if compared else None,
        "groups_all_pass": sum(item.graded > 0 and item.passed == item.graded for item in figures),
        "groups_some_pass": sum(item.passed > 0 for item in figures),
        "items_graded": sum(item.graded > 0 for item in figures),
        "groups_none_pass": sum(item.graded > 0 and item.passed == 0 for item in figures),
        "learnable_spread": LEARNABLE_SPREAD * (high - low),
        "learnable_items": sum(item.kind == "signal" for item in compared),
        "learnable_share": sum(item.kind == "signal" for item in compared) / len(compared) if compared else None,
        "spread_mean": _mean(item.spread for item in compared),
        "item_kinds": {kind: kinds.get(kind, 0) for kind in ("signal", "low", "high", "alike", "ungraded")},
    }


def _sub_rewards(graded: list[RolloutRow]) -> dict[str, float | None]:
    names = sorted({name for row in graded for name in row.sub_rewards})
    return {
        name: _mean(
            value for row in graded if (value := row.sub_rewards.get(name)) is not None and math.isfinite(value)
        )
        for name in names
    }


def _work_figures(rows: list[RolloutRow]) -> dict[str, Any]:
    ran = [row for row in rows if row.status not in {"queued", "cancelled"}]
    tools = tool_figures(ran)
    calls = sum(tool["calls"] for tool in tools)
    times = [row.milliseconds for row in ran if row.milliseconds is not None]
    costs = [row.cost_usd for row in ran if row.cost_usd is not None]
    latencies = [use.milliseconds for row in ran for use in row.tools]
    return {
        "ran": len(ran),
        "tools": tools,
        "tool_calls": calls,
        "tool_calls_mean": calls / len(ran) if ran else None,
        "tool_errors": sum(tool["errors"] for tool in tools),
        "tool_error_share": sum(tool["errors"] for tool in tools) / calls if calls else None,
        "tool_p95_milliseconds": percentile(latencies, 0.95),
        "steps_mean": _mean(row.steps for row in ran),
        "steps_max": max((row.steps for row in ran), default=0),
        "input_tokens": sum(row.input_tokens for row in ran),
        "output_tokens": sum(row.output_tokens for row in ran),
        "output_tokens_mean": _mean(row.output_tokens for row in ran),
        "rollout_milliseconds_mean": _mean(times),
        "rollout_milliseconds_p95": percentile(times, 0.95),
        "cost_usd": sum(costs) if costs else None,
        "cost_rollouts": len(costs),
        "stop_reasons": dict(Counter(row.stop_reason for row in ran if row.stop_reason).most_common()),
    }


def compute_metrics(rows: Iterable[RolloutRow], *, pass_threshold: float) -> dict[str, Any]:
    """All figures of an evaluation as JSON values. None where nothing was measured, never 0 in its place."""
    rows = list(rows)
    graded = [row for row in rows if row.is_graded]
    rewards_of: dict[str, list[float]] = defaultdict(list)
    for row in graded:
        rewards_of[row.group].append(row.reward)
    figures = item_figures(rows, pass_threshold=pass_threshold)
    ungraded = len(rows) - len(graded)
    return {
        "rollouts": len(rows),
        "graded": len(graded),
        "ungraded": ungraded,
        "ungraded_share": ungraded / len(rows) if rows else None,
        "failed": sum(row.status == "failed" for row in rows),
        "failures": failure_causes(rows),
        **_reward_figures(graded, list(rewards_of.values())),
        **_pass_figures(rows, graded, pass_threshold),
        **_group_figures(figures, rewards_of),
        "sub_rewards": _sub_rewards(graded),
        "histogram": histogram([row.reward for row in graded]),
        **_work_figures(rows),
    }
