"""Figures of the rollouts room: plain numbers in, Plotly figures out."""

from typing import Any

from rftstudio.core.charts import figure, merge_layout, token, vline

BINS = 20


def regrade_histogram(
    pairs: list[tuple[float | None, float | None]], *, before: str, pass_mark: float
) -> dict[str, Any] | None:
    """How many rollouts had which reward before, and have now; None when none has any."""
    old = [reward for reward, _ in pairs if reward is not None]
    new = [reward for _, reward in pairs if reward is not None]
    if not old and not new:
        return None
    low, high = min([0.0, *old, *new]), max([1.0, *old, *new])
    size = (high - low) / BINS
    bins = {"start": low - size / 2, "end": high + size, "size": size}
    traces = [
        _bars(old, bins, "before", token("ink-3", 0.5)),
        _bars(new, bins, "now", token("c1")),
    ]
    layout = {
        "xaxis": {"title": {"text": "reward"}, "range": [low - size, high + size]},
        "yaxis": {"title": {"text": "rollouts"}},
        "bargap": 0.1,
    }
    label = f"Rewards of {len(pairs)} rollouts: before by {before}, mean {_mean(old)}; now mean {_mean(new)}"
    return figure(traces, merge_layout(layout, vline(pass_mark, "pass mark")), label=label)


def _bars(rewards: list[float], bins: dict[str, float], name: str, color: str) -> dict[str, Any]:
    return {"type": "histogram", "x": rewards, "xbins": bins, "name": name, "marker": {"color": color}}


def _mean(rewards: list[float]) -> str:
    return f"{sum(rewards) / len(rewards):.2f}" if rewards else "–"
