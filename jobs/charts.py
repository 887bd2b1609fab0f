"""Figures of a job: train steps in, Plotly out. No queries. Only the reward's curve thins; hand the others thinned steps."""

import math
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import urlencode

from jobs.figures import StepFigures
from rftstudio.core.charts import DASHES, SERIES, figure, hline, merge_layout, note, token, vline
from rftstudio.core.show import show_percent, show_reward, show_signed

#: More train steps than this are thinned; the extremes of each stretch stay.
MOST_POINTS = 1000
SMOOTH = 5


def thin(steps: Sequence[StepFigures], most: int = MOST_POINTS) -> list[StepFigures]:
    """At most about `most` steps: of each stretch the lowest, the highest and the best checked one, and the first and last."""
    if len(steps) <= most:
        return list(steps)
    size = -(-3 * len(steps) // most)
    kept = {steps[0].number: steps[0], steps[-1].number: steps[-1]}
    for start in range(0, len(steps), size):
        stretch = steps[start : start + size]
        for of, choices in (("mean_reward", (min, max)), ("validation_reward", (max,))):
            known = [step for step in stretch if getattr(step, of) is not None]
            for choose in choices if known else ():
                step = choose(known, key=lambda one, of=of: getattr(one, of))
                kept[step.number] = step
    return [kept[number] for number in sorted(kept)]


def smoothed(values: Sequence[float | None], width: int = SMOOTH) -> list[float | None]:
    """Mean over the last few known values."""
    result: list[float | None] = []
    window: list[float] = []
    for value in values:
        if value is not None:
            window = [*window[-(width - 1) :], value]
        result.append(sum(window) / len(window) if window else None)
    return result


def _opens(list_url: str, source: str, **more: str) -> dict[str, Any]:
    """Where a click on a point leads: the list of its train step's rollouts. Said once a trace; the point adds its x."""
    if not list_url:
        return {}
    return {"meta": {"open": f"{list_url}?{urlencode({'source': source, **more})}&train_step="}}


def reward_chart(
    steps: Sequence[StepFigures],
    *,
    total: int,
    baseline: float | None,
    checkpoints: Sequence[tuple[int, str]] = (),
    alarms: Sequence[tuple[int, str, str]] = (),
    is_ended: bool = False,
    ends: tuple[float, float] | None = None,
    list_url: str = "",
    source: str = "",
) -> dict[str, Any]:
    """Train reward (noisy and smoothed) and validation with its interval, over the baseline.

    `checkpoints`: train step and page of each. `alarms`: train step, name and page; each stands on top with a line.
    `ends`: the least and the most reward that there is. What is drawn of an interval, and the axis, stay within them.
    """
    label = reward_sentence(steps, baseline)
    # Smoothed before it is thinned: what thinning leaves are extremes.
    smoothed_at = dict(
        zip([step.number for step in steps], smoothed([step.mean_reward for step in steps]), strict=True)
    )
    steps = thin(steps)
    x, raw = [step.number for step in steps], [step.mean_reward for step in steps]
    smooth = [smoothed_at[number] for number in x]
    texts = [
        _with_interval(f"train step {one.number}", one.mean_reward, one.reward_low, one.reward_high) for one in steps
    ]
    data: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines+markers", "x": x, "y": raw, "name": "train", "showlegend": False,
         "line": {"color": token("c1", 0.4), "width": 1.25}, "marker": {"size": 5, "opacity": 0}, **_opens(list_url, source, kind="train_step"),
         "text": texts, "hovertemplate": "%{text}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": x, "y": smooth, "name": "train, smoothed", "hoverinfo": "skip",
         "line": {"color": token("c1"), "width": 2}},
    ]  # fmt: skip
    checked = [step for step in steps if step.validation_reward is not None]
    ends = _widened(ends, [*raw, *(step.validation_reward for step in checked), baseline])
    data += _validation(checked, ends, list_url, source)
    data += _marks("checkpoint", 0.03, "ink", [(n, f"checkpoint at train step {n}", url) for n, url in checkpoints])
    data += _marks("alarm", 0.97, "warn", [(n, f"{name}, since train step {n}", url) for n, name, url in alarms])
    last = x[-1] if x else 0
    layout = merge_layout(
        {"xaxis": {"title": "train step", "range": [0, max(total, last, 1) + 0.5]}, "yaxis": {"title": "mean reward", **_within(ends)},
         "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}},
        _to_come(last, total) if not is_ended else {},  # first, so that the baseline lies over it
        _baseline(baseline, smooth, checked),
        {"shapes": [vline(n, "", colour="warn")["shapes"][0] for n in sorted({n for n, _, _ in alarms})]},
        _end_labels(x, smooth, checked, baseline, total),
    )  # fmt: skip
    return figure(data, layout, label=label)


def _marks(name: str, height: float, colour: str, marks: Sequence[tuple[int, str, str]]) -> list[dict[str, Any]]:
    """Triangles at one height of the picture, whatever the curves do. Each opens its page."""
    if not marks:
        return []
    return [
        {"type": "scatter", "mode": "markers", "yaxis": "y2", "x": [n for n, _, _ in marks], "y": [height] * len(marks),
         "name": name, "marker": {"symbol": "triangle-up", "size": 9, "color": token(colour)}, "cliponaxis": False,
         "text": [text for _, text, _ in marks], "customdata": [url for _, _, url in marks],
         "hovertemplate": "%{text}<extra></extra>"}
    ]  # fmt: skip


def _with_interval(words: str, value: float | None, low: float | None, high: float | None) -> str:
    return f"{words}: {show_reward(value)}" + (
        f" ({show_reward(low)} to {show_reward(high)})" if low is not None else ""
    )


def _end_labels(
    x: Sequence[int], smooth: Sequence[float | None], checked: Sequence[StepFigures], baseline: float | None, total: int
) -> dict[str, Any]:
    """What the curves have come to, said right of where they end; moved apart where they end close together."""
    ends = []
    if smooth and smooth[-1] is not None:
        ends.append((f"train {show_reward(smooth[-1])}", smooth[-1]))
    if checked:
        value = checked[-1].validation_reward
        gain = f" ({show_signed(value - baseline)})" if baseline is not None else ""
        ends.append((f"validation {show_reward(value)}{gain}", value))
    ends.sort(key=lambda end: -end[1])
    known = [value for value in smooth if value is not None]
    is_close = len(ends) == 2 and ends[0][1] - ends[1][1] < 0.15 * _span(known)
    shifts = (9, -9) if is_close else tuple(_off(value, baseline, known) for _, value in ends)
    has_room = x and x[-1] < 0.75 * total
    return {
        "annotations": [
            note(text, x=x[-1], y=y, bold=True, xanchor="left", xshift=6, yshift=shift)
            for (text, y), shift in zip(ends, shifts, strict=False)
        ],
        "margin": {"r": 16 if has_room else 128},
    }  # fmt: skip


def _baseline(baseline: float | None, smooth: Sequence[float | None], checked: Sequence[StepFigures]) -> dict[str, Any]:
    """The dashed line, its words on the side where no curve's words are."""
    if baseline is None:
        return {}
    line = hline(baseline, f"baseline {show_reward(baseline)}")
    latest = checked[-1].validation_reward if checked else smooth[-1] if smooth else None
    if latest is not None and latest >= baseline:
        line["annotations"][0]["yanchor"] = "top"
    return line


def _span(values: Sequence[float]) -> float:
    return max(max(values) - min(values), 0.1) if values else 0.1


def _off(value: float, baseline: float | None, known: Sequence[float]) -> int:
    """Pixels that keep words beside a value off the baseline's line."""
    if baseline is None or abs(value - baseline) > 0.1 * _span(known):
        return 0
    return 9 if value >= baseline else -9


def reward_sentence(steps: Sequence[StepFigures], baseline: float | None) -> str:
    """The finding in words."""
    known = [value for value in smoothed([step.mean_reward for step in steps]) if value is not None]
    if not known:
        return "No train step has ended yet."
    words = (
        f"Train reward went from {show_reward(known[0])} to {show_reward(known[-1])} in {steps[-1].number} train steps"
    )
    checked = [step.validation_reward for step in steps if step.validation_reward is not None]
    if checked:
        words += f"; validation stands at {show_reward(checked[-1])}"
    return words + (f", the baseline at {show_reward(baseline)}." if baseline is not None else ".")


def _widened(ends: tuple[float, float] | None, seen: Sequence[float | None]) -> tuple[float, float]:
    """The ends, or none that bind, made wider where a value lies beyond: no value is hidden."""
    low, high = ends or (-math.inf, math.inf)
    known = [value for value in seen if value is not None]
    return min([low, *known]), max([high, *known])


def _within(ends: tuple[float, float]) -> dict[str, Any]:
    """Keeps the axis, which fits itself to the curves, from going beyond the ends."""
    if math.isinf(ends[0]) or math.isinf(ends[1]):
        return {}
    return {"autorangeoptions": {"clipmin": ends[0], "clipmax": ends[1]}}


def _validation(
    checked: list[StepFigures], ends: tuple[float, float], list_url: str, source: str
) -> list[dict[str, Any]]:
    if not checked:
        return []
    data = []
    bounded = [step for step in checked if step.validation_low is not None]
    if len(bounded) > 1:
        x = [step.number for step in bounded]
        data.append(
            {"type": "scatter", "x": [*x, *x[::-1]], "fill": "toself", "mode": "lines", "hoverinfo": "skip",
             "y": [*(min(step.validation_high, ends[1]) for step in bounded),
                   *(max(step.validation_low, ends[0]) for step in bounded[::-1])],
             "fillcolor": token("c2", 0.15), "line": {"width": 0}, "showlegend": False}
        )  # fmt: skip
    texts = [
        _with_interval(
            f"validation after train step {step.number}",
            step.validation_reward,
            step.validation_low,
            step.validation_high,
        )
        for step in checked
    ]
    data.append(
        {"type": "scatter", "mode": "lines+markers", "x": [step.number for step in checked],
         "y": [step.validation_reward for step in checked], "name": "validation, 90 % interval",
         "line": {"color": token("c2"), "width": 1.5}, "marker": {"symbol": "diamond", "size": 9, "color": token("c2")},
         "cliponaxis": False,
         "text": texts, "hovertemplate": "%{text}<extra></extra>", **_opens(list_url, source, kind="validation")}
    )  # fmt: skip
    return data


def _to_come(done: int, total: int) -> dict[str, Any]:
    if done >= total:
        return {}
    shape = {"type": "rect", "yref": "paper", "x0": done, "x1": total, "y0": 0, "y1": 1, "layer": "below",
             "fillcolor": token("sunken"), "line": {"width": 0}}  # fmt: skip
    return {
        "shapes": [shape],
        "annotations": [note("still to come", x=(done + total) / 2, y=0.06, yref="paper", colour="ink-3")],
    }


OTHERS = "other names"


def tool_names(steps: Sequence[StepFigures], known: Collection[str] = (), most: int = 6) -> list[str]:
    """Most called first. What no tool is called (a policy may make names up), and more than six, are taken together."""
    sums: dict[str, float] = {}
    for step in steps:
        for name, value in step.tools.items():
            sums[name] = sums.get(name, 0.0) + value
    names = sorted((name for name in sums if name in known or not known), key=lambda name: (-sums[name], name))
    return names if len(names) == len(sums) <= most else [*names[: most - 1], OTHERS]


def tools_chart(
    steps: Sequence[StepFigures], *, known: Collection[str] = (), list_url: str = "", source: str = ""
) -> dict[str, Any]:
    """Calls per rollout by tool, stacked. `known`: the names that the agent's tools have."""
    names, x = tool_names(steps, known), [step.number for step in steps]
    data = []
    for place, name in enumerate(names):
        y = [
            step.tools.get(name, 0.0) if name != OTHERS else sum(v for n, v in step.tools.items() if n not in names)
            for step in steps
        ]
        opens = _opens(list_url, source, kind="train_step", **({"tool": name} if name != OTHERS else {}))
        data.append(
            {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "stackgroup": "tools",
             "line": {"color": token(SERIES[place % 6]), "width": 1}, "fillcolor": token(SERIES[place % 6]),
             **opens, "hovertemplate": f"{name}: %{{y:.2f}} a rollout at train step %{{x}}<extra></extra>"}
        )  # fmt: skip
    sums = [sum(step.tools.values()) for step in steps]
    words = f"Tool calls per rollout went from {sums[0]:.1f} to {sums[-1]:.1f}." if sums else "No tool was called yet."
    return figure(
        data,
        {"xaxis": {"title": "train step"}, "yaxis": {"title": "calls per rollout", "rangemode": "tozero"}},
        label=words,
    )


def flat_chart(
    steps: Sequence[StepFigures], *, limit: float | None, list_url: str = "", source: str = ""
) -> dict[str, Any]:
    """Groups without signal as shares of all groups: all low against all high."""
    steps = [step for step in steps if step.groups]
    x = [step.number for step in steps]
    parts = (
        ("all low", "groups_low", token("c2"), token("c2"), {"passed": "0"}),
        ("all alike", "groups_alike", token("ink-3", 0.5), token("ink-3"), {}),
        ("all high", "groups_high", "rgba(0,0,0,0)", token("c1"), {"passed": "1"}),
    )
    data = [
        {"type": "bar", "x": x, "y": [getattr(step, name) / step.groups for step in steps], "name": words,
         "marker": {"color": fill, "line": {"color": edge, "width": 1}},
         **_opens(list_url, source, kind="train_step", alike="1", **more),
         "hovertemplate": f"{words}: %{{y:.0%}} of groups at train step %{{x}}<extra></extra>"}
        for words, name, fill, edge, more in parts
        if any(getattr(step, name) for step in steps)
    ]  # fmt: skip
    layout = merge_layout(
        {
            "barmode": "stack",
            "showlegend": True,
            "margin": {"t": 30},
            "xaxis": {"title": "train step"},
            "yaxis": {"tickformat": ".0%", "rangemode": "tozero"},
        },
        hline(limit, f"pauses above {limit:.0%}", colour="ink-3") if limit else {},
    )
    last = steps[-1].flat_share if steps else None
    words = f"{show_percent(last)} of the latest groups have equal rewards." if steps else "No groups yet."
    return figure(data, layout, label=words)


def parts_chart(steps: Sequence[StepFigures], *, list_url: str = "", source: str = "") -> dict[str, Any]:
    """The mean of each part of the reward: a line for the train step's rollouts, diamonds for the checks on validation."""
    names = sorted({name for step in steps for name in step.sub_rewards})[: len(SERIES)]
    data = []
    for place, name in enumerate(names):
        colour = token(SERIES[place])
        for what, of, kind, look in (
            ("train", "sub_rewards", "train_step", {"mode": "lines", "line": {"color": colour, "width": 1.5, "dash": DASHES[place]}}),
            ("validation", "validation_sub_rewards", "validation", {"mode": "markers", "marker": {"symbol": "diamond", "size": 8, "color": colour}}),
        ):  # fmt: skip
            known = [step for step in steps if getattr(step, of).get(name) is not None]
            if known:
                data.append(
                    {"type": "scatter", "x": [step.number for step in known], "y": [getattr(step, of)[name] for step in known],
                     "name": name, "showlegend": what == "train", **_opens(list_url, source, kind=kind),
                     "hovertemplate": f"{name}, {what}, train step %{{x}}: %{{y:.2f}}<extra></extra>", **look}
                )  # fmt: skip
    ends = [(trace["name"], trace["y"][0], trace["y"][-1]) for trace in data if trace["showlegend"]]
    words = "; ".join(f"{name} went from {show_reward(first)} to {show_reward(last)}" for name, first, last in ends)
    return figure(data, {"xaxis": {"title": "train step"}, "yaxis": {"title": "mean sub-reward"}, "showlegend": True,
                         "margin": {"t": 30}}, label=f"{words}.")  # fmt: skip


#: Key of StepFigures → heading of a small chart.
SMALL = {
    "loss": "Loss",
    "entropy": "Entropy, nats a token",
    "kl": "KL from the base model",
    "grad_norm": "Gradient norm",
    "tokens_mean": "Tokens per rollout",
    "seconds": "Seconds per train step",
}


def small_chart(
    steps: Sequence[StepFigures], key: str, *, list_url: str = "", source: str = ""
) -> dict[str, Any] | None:
    """One curve over train steps; None where the backend gives no such number."""
    drawn = [step for step in steps if getattr(step, key) is not None]
    known = [(step.number, getattr(step, key)) for step in drawn]
    if not known:
        return None
    data = [{"type": "scatter", "mode": "lines", **_opens(list_url, source, kind="train_step"), "x": [n for n, _ in known], "y": [v for _, v in known],
             "name": SMALL[key], "showlegend": False, "line": {"color": token("c1"), "width": 1.5},
             "hovertemplate": "train step %{x}: %{y:.3g}<extra></extra>"}]  # fmt: skip
    return figure(
        data, {"yaxis": {"rangemode": "tozero"}}, label=f"{SMALL[key]}: from {known[0][1]:.3g} to {known[-1][1]:.3g}."
    )


def steps_table(steps: Sequence[StepFigures]) -> dict[str, Any]:
    return {
        "head": ["Train step", "Train", "Validation", "Ungraded", "Groups alike"],
        "rows": [
            [step.number, show_reward(step.mean_reward), show_reward(step.validation_reward),
             show_percent(step.ungraded_share), show_percent(step.flat_share)]
            for step in steps
        ],
    }  # fmt: skip


#: Key of StepFigures → heading of a curve that jobs may be compared by, besides their rewards.
OVERLAYS = {**SMALL, "flat_share": "Groups without signal", "ungraded_share": "Ungraded share"}


def overlay_chart(
    runs: Sequence[tuple[str, Sequence[StepFigures], float | None]], *, of: str, axis: str = "reward"
) -> dict[str, Any]:
    """Curves of several jobs over each other, told apart by colour, dash and end label."""
    data, notes = [], []
    for place, (name, steps, _) in enumerate(runs[:6]):
        values = [(step.number, getattr(step, of)) for step in steps if getattr(step, of) is not None]
        if not values:
            continue
        x = [number for number, _ in values]
        y = smoothed([value for _, value in values]) if of == "mean_reward" else [value for _, value in values]
        is_sparse = of == "validation_reward"
        data.append(
            {"type": "scatter", "mode": "lines+markers" if is_sparse else "lines", "x": x, "y": y, "name": name,
             "line": {"color": token(SERIES[place]), "dash": DASHES[place], "width": 2},
             "hovertemplate": f"{name}, train step %{{x}}: %{{y:.2f}}<extra></extra>"}
        )  # fmt: skip
        notes.append(note(f"{name} {show_reward(y[-1])}", x=x[-1], y=y[-1], xanchor="left", bold=True))
    words = (
        "; ".join(f"{trace['name']} ends at {show_reward(trace['y'][-1])}" for trace in data) or "Nothing to draw yet."
    )
    return figure(data, {"xaxis": {"title": "train step"}, "yaxis": {"title": axis}, "annotations": notes,
                         "margin": {"r": 90}}, label=words + ".")  # fmt: skip
