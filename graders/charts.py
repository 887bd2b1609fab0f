"""Figures of the graders room: plain numbers in, Plotly figures out."""

from typing import Any

from rftstudio.core.charts import figure, hline, merge_layout, token, vline

BINS = 20


def reward_histogram(
    rewards: list[float | None], before: list[float | None], *, number: int | None, pass_mark: float
) -> dict[str, Any] | None:
    """How many samples got which reward, the draft over the published version."""
    graded = [reward for reward in rewards if reward is not None]
    if not graded:
        return None
    old = [reward for reward in before if reward is not None]
    low, high = min([0.0, *graded, *old]), max([1.0, *graded, *old])
    size = (high - low) / BINS
    bins = {"start": low - size / 2, "end": high + size, "size": size}
    traces = [{"type": "histogram", "x": graded, "xbins": bins, "name": "draft", "marker": {"color": token("c1")}}]
    if old:
        grey = {"color": token("ink-3", 0.5)}
        traces.append({"type": "histogram", "x": old, "xbins": bins, "name": f"version {number}", "marker": grey})
    layout = {
        "xaxis": {"title": {"text": "reward"}, "range": [low - size, high + size]},
        "yaxis": {"title": {"text": "samples"}},
        "bargap": 0.08,
    }
    mean = sum(graded) / len(graded)
    label = f"{len(graded)} graded samples, mean reward {mean:.2f}"
    return figure(traces, merge_layout(layout, vline(pass_mark, "pass mark")), label=label)


def agreement_scatter(points: list[tuple[float, float, str]], *, pass_mark: float) -> dict[str, Any] | None:
    """(label, reward, address) of each sample; those off the diagonal are where grader and people differ."""
    if not points:
        return None
    low, high = min([0.0, *(y for _, y, _ in points)]), max([1.0, *(y for _, y, _ in points)])
    marks = {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _, _ in points],
        "y": [y for _, y, _ in points],
        "customdata": [url for _, _, url in points],
        "marker": {"color": token("c1", 0.55), "size": 8},
        "showlegend": False,
    }
    layout = {
        "xaxis": {"title": {"text": "people"}, "range": [-0.05, 1.05]},
        "yaxis": {"title": {"text": "grader"}, "range": [low - 0.05, high + 0.05]},
    }
    label = f"{len(points)} rollouts: what the grader gave against what people gave"
    return figure([marks], merge_layout(layout, hline(pass_mark, "pass mark")), label=label)
