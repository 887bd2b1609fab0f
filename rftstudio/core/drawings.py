"""Small shapes inside rows, drawn on the server as SVG: bars, strips, ribbons, sparks. No script, no style attribute."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from rftstudio.core.show import show_reward

SHAPES = ("ring", "square", "diamond", "triangle", "plus", "bar")
COLOURS = ("c3", "c1", "c2", "c5", "c4", "c6")


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def bar(share: float | None, tone: str = "c1", label: str = "") -> str:
    """A share of 1 as a bar that fills its cell."""
    width = 0.0 if share is None else max(0.0, min(1.0, float(share))) * 100
    name = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    fill = f'<rect class="fill-{escape(tone)}" width="{_n(width)}" height="6"/>' if width else ""
    return (
        f'<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" {name}>'
        f'<rect class="fill-track" width="100" height="6"/>{fill}</svg>'
    )


def stacked_bar(parts: Sequence[tuple[float, str]], total: float, css: str = "bar cost-bar") -> str:
    """Amounts one after the other on one track."""
    x, rects = 0.0, []
    for amount, tone in parts:
        width = max(0.0, min(100.0 - x, 100.0 * amount / total)) if total else 0.0
        if width:
            rects.append(
                f'<rect class="fill-{escape(tone)}" x="{_n(x)}" width="{_n(max(width - 0.4, 0.2))}" height="10"/>'
            )
        x += width
    return (
        f'<svg class="{css}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="fill-track" width="100" height="10"/>{"".join(rects)}</svg>'
    )


def rollout_strip(
    dots: Iterable[dict], *, mean: float | None = None, low: float = 0.0, high: float = 1.0, width: int = 150
) -> str:
    """One mark per rollout on its reward: filled = passes, ring = not, dashed = ungraded at the right end.

    A dot is {reward, passed, label, url, is_self}.
    """
    span = (high - low) or 1.0
    left, right = 8.0, width - 26.0
    dots = list(dots)
    body = [f'<path class="line-strong" d="M{_n(left)} 10.5H{_n(right)}"/>']
    if mean is not None:
        x = left + (right - left) * (mean - low) / span
        body.append(f'<path class="line-ink-2 dashed" d="M{_n(x)} 3V18"/>')
    ungraded = 0
    for dot in sorted(dots, key=lambda d: bool(d.get("is_self"))):
        reward = dot.get("reward")
        if reward is None:
            x = right + 12 + 3 * ungraded
            ungraded += 1
            mark = f'<circle class="fill-surface line-ink-3" cx="{_n(x)}" cy="10" r="4" stroke-width="1.4" stroke-dasharray="2 1.6"/>'
        else:
            x = left + (right - left) * max(0.0, min(1.0, (reward - low) / span))
            css = (
                "fill-accent line-surface"
                if dot.get("is_self")
                else ("fill-c1 line-surface" if dot.get("passed") else "fill-surface line-ink-2")
            )
            mark = (
                f'<circle class="{css}" cx="{_n(x)}" cy="10" r="{5 if dot.get("is_self") else 4}" stroke-width="1.4"/>'
            )
        title = f"<title>{escape(str(dot.get('label') or ''))}</title>" if dot.get("label") else ""
        if dot.get("url"):
            mark = f'<a href="{escape(dot["url"])}">{title}{mark}</a>'
        elif title:
            mark = f"<g>{title}{mark}</g>"
        body.append(mark)
    name = _strip_label(dots)
    role = "group" if any(dot.get("url") for dot in dots) else "img"
    return (
        f'<svg class="drawing" width="{width}" height="20" viewBox="0 0 {width} 20" role="{role}" '
        f'aria-label="{escape(name)}">{"".join(body)}</svg>'
    )


def range_strip(low: float, likely: float, high: float, *, words: Sequence[str], dots: Iterable[dict] = ()) -> str:
    """An estimate: its span, where it most likely ends, and rings for what happened before, each {at, label, url}.

    `words` name low, likely and high. The scale begins at nothing, so that a wide span looks wide.
    """
    width, left, right = 344, 6.0, 338.0
    dots = list(dots)
    top = max([high, *(dot["at"] for dot in dots)]) * 1.04 or 1.0

    def x(value: float) -> float:
        return left + (right - left) * max(0.0, value) / top

    rings = "".join(
        f'<a href="{escape(dot["url"])}" aria-label="{escape(dot["label"])}"><title>{escape(dot["label"])}</title>'
        f'<circle class="fill-surface line-ink-2" cx="{_n(x(dot["at"]))}" cy="12" r="4" stroke-width="1.4"/></a>'
        for dot in dots
    )
    # The middle word gives way to its neighbours; the first and the last stand at their ends.
    places = [max(x(low), left), min(max(x(likely), x(low) + 70), x(high) - 70), min(x(high), right)]
    middle = places[1] if x(high) - x(low) > 150 else None
    texts = [
        f'<text x="{_n(places[0])}" y="56">{escape(words[0])}</text>',
        f'<text class="strong" x="{_n(middle)}" y="56" text-anchor="middle">{escape(words[1])}</text>'
        if middle
        else "",
        f'<text x="{_n(places[2])}" y="56" text-anchor="end">{escape(words[2])}</text>',
    ]
    name = f"From {words[0]} to {words[2]}, most likely {words[1]}" + (f"; earlier jobs: {len(dots)}" if dots else "")
    return (
        f'<svg class="drawing range-strip" viewBox="0 0 {width} 62" role="{"group" if dots else "img"}" aria-label="{escape(name)}">'
        f'<path class="line-strong" d="M{_n(left)} 31.5H{_n(right)}"/>'
        f'<rect class="fill-plus-soft" x="{_n(x(low))}" y="24" width="{_n(x(high) - x(low))}" height="15" rx="3"/>'
        f'<path class="line-ink" d="M{_n(x(likely))} 20V43" stroke-width="2.5"/>{rings}{"".join(texts)}</svg>'
    )


def _strip_label(dots: list[dict]) -> str:
    graded = [dot["reward"] for dot in dots if dot.get("reward") is not None]
    words = [f"{len(dots)} rollouts"]
    if graded:
        words.append(f"rewards {show_reward(min(graded))} to {show_reward(max(graded))}")
    passes = sum(1 for dot in dots if dot.get("passed"))
    words.append(f"{passes} pass")
    if len(dots) > len(graded):
        words.append(f"{len(dots) - len(graded)} ungraded")
    return ", ".join(words)


def tool_mark(index: int, x: float, *, failed: bool = False, answer: bool = False) -> str:
    """The mark of one step at `x`, 10 wide, centred on y = 8: shape and colour say which tool."""
    if answer:
        return f'<circle class="fill-ink" cx="{_n(x + 5)}" cy="8" r="4"/>'
    if failed:
        return (
            f'<rect class="fill-surface line-bad" x="{_n(x + 0.7)}" y="3.7" width="8.6" height="8.6" rx="1.5" stroke-width="1.3"/>'
            f'<path class="line-bad" d="m{_n(x + 3)} 6 4 4m0-4-4 4" stroke-width="1.3"/>'
        )
    shape, colour = SHAPES[index % len(SHAPES)], COLOURS[index % len(COLOURS)]
    if shape == "ring":
        return f'<circle class="fill-none line-{colour}" cx="{_n(x + 5)}" cy="8" r="3.4" stroke-width="2"/>'
    if shape == "square":
        return f'<rect class="fill-{colour}" x="{_n(x + 0.5)}" y="3.5" width="9" height="9" rx="1.5"/>'
    path = {
        "diamond": f"M{_n(x + 5)} 2.7l5.2 5.3-5.2 5.3L{_n(x - 0.2)} 8z",
        "triangle": f"M{_n(x + 5)} 3.3 {_n(x + 9.8)} 12.2H{_n(x + 0.2)}z",
        "plus": f"M{_n(x + 3.6)} 3.4h2.8v3.2h3.2v2.8H{_n(x + 6.4)}v3.2H{_n(x + 3.6)}V9.4H{_n(x + 0.4)}V6.6h3.2z",
        "bar": f"M{_n(x + 3)} 3h4v10h-4z",
    }
    return f'<path class="fill-{colour}" d="{path[shape]}"/>'


def tool_swatch(name: str, tools: Sequence[str]) -> str:
    """The mark of a tool on its own, for legends."""
    mark = tool_mark(tools.index(name) if name in tools else 0, 0, answer=name == "answer")
    return f'<svg class="drawing" width="10" height="16" viewBox="0 0 10 16" aria-hidden="true">{mark}</svg>'


def step_ribbon(
    path: str, *, tools: Sequence[str] = (), part_after: int | None = None, failed: Iterable[int] = (), limit: int = 24
) -> str:
    """One mark per step of a tool path "a>b>answer"; a bar where the group parts; `failed` are 0-based places."""
    steps = [name.split("+") for name in path.split(">") if name]
    order = list(tools) or sorted({name for names in steps for name in names if name != "answer"})
    failed = set(failed or ())
    body: list[str] = []
    x = 0.0
    for place, names in enumerate(steps[:limit]):
        if part_after is not None and place == part_after:
            body.append(f'<path class="line-ink" d="M{_n(x + 1)} 1V15" stroke-width="1.5"/>')
            x += 5
        for name in names:  # calls of one step stand closer together
            index = order.index(name) if name in order else len(order)
            body.append(tool_mark(index, x, failed=place in failed, answer=name == "answer"))
            x += 11
        x += 3
    more = len(steps) - limit
    if more > 0:
        body.append(f'<text x="{_n(x)}" y="12">+{more}</text>')
        x += 26
    width = max(x, 10)
    words = ", ".join(" and ".join(names) for names in steps).replace("_", " ") or "no steps"
    return (
        f'<svg class="drawing" width="{_n(width)}" height="16" viewBox="0 0 {_n(width)} 16" role="img" '
        f'aria-label="{escape(words)}"><title>{escape(words)}</title>{"".join(body)}</svg>'
    )


def spark(values: Sequence[Any], *, width: int = 72, height: int = 26, label: str = "") -> str:
    """A line over equal distances; gaps where there is no value; a dot at the last one."""
    numbers = [(i, float(v)) for i, v in enumerate(values) if v is not None]
    if len(numbers) < 2:
        return ""
    low, high = min(v for _, v in numbers), max(v for _, v in numbers)
    span = (high - low) or 1.0
    last = max(len(values) - 1, 1)
    points = [(3 + (width - 8) * i / last, height - 4 - (height - 8) * (v - low) / span) for i, v in numbers]
    path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    end_x, end_y = points[-1]
    name = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    return (
        f'<svg class="drawing" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {name}>'
        f'<polyline class="fill-none line-c1" points="{path}" stroke-width="1.5" stroke-linejoin="round"/>'
        f'<circle class="fill-c1" cx="{_n(end_x)}" cy="{_n(end_y)}" r="2.5"/></svg>'
    )
