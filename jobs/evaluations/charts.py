"""Figures of an evaluation: rows in, Plotly out. No queries."""

import html
import math
from collections import Counter
from typing import Any
from urllib.parse import urlencode

from jobs.evaluations.metrics import reward_range
from rftstudio.core.charts import figure, merge_layout, note, token, vline
from rftstudio.core.show import show_percent, show_reward

#: kind → words, symbol, colour, size. Told apart by shape, not by colour alone.
MARKS: dict[str, tuple[str, str, str, int]] = {
    "signal": ("signal", "circle", "c1", 8),
    "low": ("always low", "x-thin", "c2", 7),
    "high": ("always high", "circle-open", "c6", 8),
    "alike": ("all alike", "square-open", "ink-2", 8),
}
#: From this many items on, single marks would only hide each other.
MOST_MARKS = 2000


def _arch(low: float, high: float, floor: float = 0.0) -> tuple[list[float], list[float]]:
    """Largest spread that a mean allows, from end to end, above `floor`."""
    points = [low + (high - low) * n / 80 for n in range(81)]
    pairs = [(x, math.sqrt(max(0.0, (x - low) * (high - x)))) for x in points]
    kept = [(x, y) for x, y in pairs if y >= floor]
    return [x for x, _ in kept], [y for _, y in kept]


def variance_plot(
    items: list[dict[str, Any]],
    *,
    threshold: float,
    learnable: float,
    samples: int,
    list_url: str = "",
    source: str = "",
) -> dict[str, Any]:
    """One mark for each item: mean reward across, spread of its rewards up; the band where there is something to learn."""
    shown = [item for item in items if item["mean"] is not None]
    low, high = reward_range([item["mean"] for item in shown])
    counts = Counter(item["kind"] for item in shown)
    band_x, band_y = _arch(low, high, learnable)
    arch_x, arch_y = _arch(low, high)
    data: list[dict[str, Any]] = []
    if band_x:
        data.append(
            {"type": "scatter", "x": [*band_x, band_x[-1], band_x[0]], "y": [*band_y, learnable, learnable],
             "fill": "toself", "fillcolor": token("c1", 0.10), "line": {"width": 0}, "mode": "lines",
             "hoverinfo": "skip", "showlegend": False}
        )  # fmt: skip
    data.append(
        {"type": "scatter", "x": arch_x, "y": arch_y, "mode": "lines", "hoverinfo": "skip", "showlegend": False,
         "line": {"color": token("line-strong"), "width": 1.25}}
    )  # fmt: skip
    if len(shown) > MOST_MARKS:
        data.append(
            {"type": "histogram2d", "x": [i["mean"] for i in shown], "y": [i["spread"] for i in shown], "nbinsx": 40,
             "nbinsy": 25, "colorscale": [[0, token("c1", 0)], [1, token("c1")]], "showscale": False,
             "hovertemplate": "%{z} items<extra></extra>"}
        )  # fmt: skip
    else:
        data += [_marks(kind, shown, samples, list_url, source) for kind in MARKS if counts[kind]]
    data += _averages(shown, samples)
    learn = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": learnable, "y1": learnable, "layer": "below",
        "line": {"color": token("ink-2"), "width": 1, "dash": "dash"},
    }  # fmt: skip
    words = note(
        f"signal to learn from: {counts['signal']} items", x=(low + high) / 2, y=learnable, bold=True, yanchor="bottom"
    )
    layout = merge_layout(
        {"xaxis": {"title": f"mean reward of the item's {samples} rollouts", "range": [low - 0.02, high + 0.02]},
         "yaxis": {"title": "spread of its rewards", "rangemode": "tozero"}},
        {"shapes": [learn], "annotations": [words]},
        vline(threshold, "pass mark") if low <= threshold <= high else {},
    )  # fmt: skip
    label = f"{counts['signal']} of {len(shown)} items have rewards that differ enough to learn from."
    return figure(data, layout, label=label)


def _averages(shown: list[dict[str, Any]], samples: int) -> list[dict[str, Any]]:
    """The mean over items and the mean of each item's best try, on the axis: what lies between them can be learned."""
    if not shown:
        return []
    averages = [("on average", "mean", "diamond"), (f"best of {samples}", "best", "triangle-up")]
    found = [(words, sum(item[key] for item in shown) / len(shown), symbol) for words, key, symbol in averages]
    return [
        {"type": "scatter", "mode": "markers", "name": f"{words}: {show_reward(value)}", "x": [value], "y": [0],
         "hovertemplate": f"{words}: {show_reward(value)}, mean over the items<extra></extra>", "cliponaxis": False,
         "marker": {"symbol": symbol, "size": 11, "color": token("ink"), "line": {"color": token("surface"), "width": 1}}}
        for words, value, symbol in found
    ]  # fmt: skip


def _apart(items: list[dict]) -> list[tuple[float, float]]:
    """Where marks stand: those that would cover each other go round in a small spiral. The hover text has the truth."""
    seen: Counter[tuple[float, float]] = Counter()
    places = []
    for item in items:
        spot = (round(item["mean"], 3), round(item["spread"], 3))
        turn, seen[spot] = seen[spot], seen[spot] + 1
        radius = 0.0035 * math.sqrt(turn)
        places.append((item["mean"] + radius * math.cos(2.4 * turn), item["spread"] + radius * math.sin(2.4 * turn)))
    return places


def _marks(kind: str, shown: list[dict], samples: int, list_url: str, source: str) -> dict[str, Any]:
    words, symbol, colour, size = MARKS[kind]
    items = [item for item in shown if item["kind"] == kind]
    texts = [
        f"<b>{html.escape(item['title'][:60])}</b><br>mean {show_reward(item['mean'])}, spread "
        f"{show_reward(item['spread'])} · {item['passed']} of {item['graded']} pass"
        + f", best {show_reward(item['best'])}"
        + (f" · {item['rollouts'] - item['graded']} ungraded" if item["graded"] < item["rollouts"] else "")
        for item in items
    ]
    links = [f"{list_url}?{urlencode({'source': source, 'item': item['key']})}" if list_url else "" for item in items]
    places = _apart(items)
    return {
        "type": "scatter", "mode": "markers", "name": f"{words} {len(items)}", "x": [x for x, _ in places],
        "y": [y for _, y in places], "text": texts, "hovertemplate": "%{text}<extra></extra>",
        "customdata": links,
        "marker": {"symbol": symbol, "size": size, "color": token(colour), "opacity": 0.85,
                   "line": {"color": token(colour), "width": 1.5}},
    }  # fmt: skip


def variance_table(items: list[dict[str, Any]], *, most: int = 200) -> dict[str, Any]:
    """The same as rows, widest spread first."""
    rows = sorted((item for item in items if item["mean"] is not None), key=lambda item: -item["spread"])
    return {
        "head": ["Item", "Mean", "Spread", "Best", "Pass"],
        "rows": [
            [item["title"], show_reward(item["mean"]), show_reward(item["spread"]), show_reward(item["best"]),
             f"{item['passed']} of {item['graded']}"]
            for item in rows[:most]
        ],
    }  # fmt: skip


def reward_histogram(
    histogram: dict[str, Any],
    *,
    threshold: float,
    mean: float | None,
    pass_rate: float | None,
    list_url: str = "",
    source: str = "",
) -> dict[str, Any]:
    """How often each reward came; strong bars pass."""
    counts = histogram.get("counts") or []
    low, high = histogram.get("low", 0.0), histogram.get("high", 1.0)
    width = (high - low) / max(len(counts), 1)
    edges = [(low + n * width, low + (n + 1) * width) for n in range(len(counts))]
    links = [
        f"{list_url}?{urlencode({'source': source, 'reward': f'{a:g}-{b:g}'})}" if list_url and a >= 0 else ""
        for a, b in edges
    ]
    colours = [token("c1") if a >= threshold - 1e-9 else token("c1", 0.45) for a, _ in edges]
    data = [
        {"type": "bar", "x": [(a + b) / 2 for a, b in edges], "y": counts, "width": [width * 0.92] * len(counts),
         "marker": {"color": colours}, "customdata": links, "showlegend": False,
         "text": [f"{count} rollouts, reward {a:.2f} to {b:.2f}" for count, (a, b) in zip(counts, edges, strict=True)],
         "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    ]  # fmt: skip
    words = f"mean {show_reward(mean)} · {show_percent(pass_rate)} pass"
    y_axis = {"title": "rollouts"} if any(counts) else {"title": "rollouts", "range": [0, 1], "showticklabels": False}
    layout = merge_layout({"xaxis": {"title": "reward"}, "yaxis": y_axis}, vline(threshold, "pass mark"))
    return figure(data, layout, label=f"Rewards of {sum(counts)} rollouts: {words}.")


def histogram_table(histogram: dict[str, Any]) -> dict[str, Any]:
    counts = histogram.get("counts") or []
    low, high = histogram.get("low", 0.0), histogram.get("high", 1.0)
    width = (high - low) / max(len(counts), 1)
    return {
        "head": ["Reward", "Rollouts"],
        "rows": [[f"{low + n * width:.2f} to {low + (n + 1) * width:.2f}", count] for n, count in enumerate(counts)],
    }


def difference_plot(rows: list[dict[str, Any]], *, mean: float | None) -> dict[str, Any]:
    """Change of each item's mean reward between two evaluations, sorted: right of zero is better."""
    ordered = sorted(rows, key=lambda row: row["change"])
    colours = [
        token("plus") if row["change"] > 0 else token("minus") if row["change"] < 0 else token("ink-3")
        for row in ordered
    ]
    data = [
        {"type": "bar", "x": list(range(1, len(ordered) + 1)), "y": [row["change"] for row in ordered],
         "marker": {"color": colours}, "showlegend": False,
         "text": [f"<b>{html.escape(row['title'][:60])}</b><br>{show_reward(row['before'])} → {show_reward(row['after'])}"
                  for row in ordered],
         "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    ]  # fmt: skip
    better, worse = sum(row["change"] > 0 for row in rows), sum(row["change"] < 0 for row in rows)
    layout = {
        "xaxis": {"title": "items, sorted by change"},
        "yaxis": {"title": "change of mean reward", "zeroline": True},
    }
    return figure(
        data, layout, label=f"{better} items got better, {worse} worse, of {len(rows)}; mean change {mean or 0:+.2f}."
    )
