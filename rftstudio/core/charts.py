"""The one chart theme. Rooms hand in plain traces; colours are names of tokens, which charts.js turns into the theme's colours.

Write a colour as `token("c1")` or `token("c1", 0.2)`; never as a hex value, or the dark theme breaks.
"""

from collections.abc import Sequence
from typing import Any

SERIES = ("c1", "c2", "c3", "c4", "c5", "c6")
DASHES = ("solid", "dash", "dot", "longdash", "dashdot", "longdashdot")


def token(name: str, alpha: float | None = None) -> str:
    """A colour of static/css/tokens.css; resolved in the browser, so both themes and forced changes work."""
    return f"--{name}" if alpha is None else f"--{name}/{alpha:g}"


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """A quiet axis: hairline grid only on y, no box."""
    base = {
        "title": {"text": title, "font": {"size": 11, "color": token("ink-3")}, "standoff": 8},
        "gridcolor": token("line"),
        "zeroline": False,
        "linecolor": token("line-strong"),
        "tickfont": {"size": 11, "color": token("ink-3")},
        "automargin": True,
        "fixedrange": False,
    }
    return _merge(base, more)


def hline(y: float, text: str, *, colour: str = "ink-2", dash: str = "dash") -> dict[str, list[dict]]:
    """A dashed line with its words at the right end, for instance the baseline: {"shapes": […], "annotations": […]}."""
    return {
        "shapes": [
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": y,
                "y1": y,
                "layer": "below",
                "line": {"color": token(colour), "width": 1.25, "dash": dash},
            }
        ],
        "annotations": [note(text, x=1, y=y, xref="paper", xanchor="right", yanchor="bottom")],
    }


def vline(x: float, text: str, *, colour: str = "ink-3", dash: str = "dot") -> dict[str, list[dict]]:
    return {
        "shapes": [
            {
                "type": "line",
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "x0": x,
                "x1": x,
                "layer": "below",
                "line": {"color": token(colour), "width": 1.25, "dash": dash},
            }
        ],
        "annotations": [note(text, x=x, y=1, yref="paper", xanchor="left", yanchor="top")],
    }


def note(text: str, *, x: Any, y: Any, bold: bool = False, colour: str = "ink-2", **more: Any) -> dict[str, Any]:
    """A direct label in place of a legend."""
    return {
        "text": text,  # no <b>: Plotly would write a style attribute, which the content policy refuses
        "x": x,
        "y": y,
        "showarrow": False,
        "font": {"size": 11, "color": token(colour), "weight": 600 if bold else 400},
        **more,
    }


def figure(data: Sequence[dict[str, Any]], layout: dict[str, Any] | None = None, *, label: str) -> dict[str, Any]:
    """A Plotly figure in the house theme. `label` is the finding in words: the text alternative of the picture."""
    has_legend = len([trace for trace in data if trace.get("showlegend", True) and trace.get("name")]) > 1
    base: dict[str, Any] = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": [token(name) for name in SERIES],
        "font": {"size": 11, "color": token("ink-2")},
        "margin": {"l": 44, "r": 16, "t": 30 if has_legend else 12, "b": 36},
        "showlegend": has_legend,
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "font": {"size": 12, "color": token("ink-2")},
        },
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": token("ink"),
            "bordercolor": token("ink"),
            "align": "left",
            "font": {"size": 12, "color": token("surface")},
        },
        "bargap": 0.08,
        "dragmode": False,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": token("ink-3"), "activecolor": token("accent")},
        "xaxis": axis(showgrid=False, showline=True),
        "yaxis": axis(),
    }
    layout = _merge(base, layout or {})
    return {"data": [_with_hover(trace, layout) for trace in data], "layout": layout, "label": label}


def _with_hover(trace: dict[str, Any], layout: dict[str, Any]) -> dict[str, Any]:
    """Words for the pointer where the trace has none: name and value, then the place on the x axis."""
    if trace.keys() & {"hovertemplate", "hoverinfo", "hovertext"} or trace.get("type") not in (None, "scatter", "bar"):
        return trace
    if trace.get("orientation") == "h":
        return trace
    name, place = trace.get("name", ""), layout["xaxis"]["title"].get("text", "")
    words = f"{name} %{{y:.4~g}}".strip() + f"<br>{place} %{{x}}<extra></extra>"
    return {**trace, "hovertemplate": words}


def merge_layout(*parts: dict[str, Any]) -> dict[str, Any]:
    """Join layouts; shapes and annotations are added up, the rest is overridden."""
    joined: dict[str, Any] = {}
    for part in parts:
        for key in ("shapes", "annotations"):
            if key in part:
                joined[key] = [*joined.get(key, []), *part[key]]
        joined = _merge(joined, {key: value for key, value in part.items() if key not in ("shapes", "annotations")})
    return joined


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    joined = dict(base)
    for key, value in over.items():
        if isinstance(value, str) and key == "title" and isinstance(joined.get(key), dict):
            joined[key] = {**joined[key], "text": value}
        elif isinstance(value, dict) and isinstance(joined.get(key), dict):
            joined[key] = _merge(joined[key], value)
        else:
            joined[key] = value
    return joined
