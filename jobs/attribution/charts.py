"""Credit over train steps, as Plotly figures from plain rows."""

from typing import Any

from rftstudio.core.charts import DASHES, SERIES, figure, hline, merge_layout, token

#: Lines drawn; the rest is in the table.
MOST_LINES = 5
#: Drawn from this part of the train steps of the most frequent one.
FEWEST = 10


def credit_over_time(over_time: dict[str, list[tuple[int, float]]]) -> dict[str, Any] | None:
    """Mean credit of each tool's steps over train steps; None when there is one train step or none."""
    lines = sorted(over_time.items(), key=lambda entry: -len(entry[1]))[:MOST_LINES]
    # A name met once or twice would only stretch the axis.
    lines = [(name, points) for name, points in lines if len(points) * FEWEST >= len(lines[0][1])]
    if not lines or len({step for _, points in lines for step, _ in points}) < 2:
        return None
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name.replace("_", " "),
            "x": [step for step, _ in points],
            "y": [value for _, value in points],
            "line": {"color": token(colour), "dash": dash, "width": 2},
        }
        for (name, points), colour, dash in zip(lines, SERIES, DASHES, strict=False)
    ]
    layout = merge_layout(
        {"xaxis": {"title": "train step"}, "yaxis": {"title": "mean credit per step"}}, hline(0.0, "no credit")
    )
    return figure(data, layout, label="Mean credit of each tool's steps over train steps")


def over_time_table(over_time: dict[str, list[tuple[int, float]]]) -> dict[str, Any]:
    names = list(over_time)
    steps = sorted({step for points in over_time.values() for step, _ in points})
    values = {name: dict(points) for name, points in over_time.items()}
    rows = [[step, *(None if step not in values[n] else f"{values[n][step]:+.3f}" for n in names)] for step in steps]
    return {"head": ["train step", *names], "rows": rows}
