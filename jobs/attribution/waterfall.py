"""The credit waterfall as SVG, one drawing a row. Places are percentages, so rows of any width and height line up.

Numbers in, markup out; nothing here is text of a person or a model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

BAR_TOP, BAR_HEIGHT = 15, 14
_MIDDLE = BAR_TOP + BAR_HEIGHT / 2
#: How far the start line of a step stands out above and below its bar.
START_OVER = 6
#: Bars thinner than this, in per cent, are no bars: the start line alone stands there.
_THINNEST = 0.8
#: Left and right margin of the plot, in per cent, so that end ticks and whiskers stay inside.
_EDGE = 3.0


@dataclass(frozen=True)
class Axis:
    """The reward range, widened to all that is drawn, with even ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    baseline: float

    def at(self, value: float) -> float:
        """Place of a value in per cent; values outside stop at the edge."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return _EDGE + (100 - 2 * _EDGE) * min(1.0, max(0.0, share))

    def holds(self, value: float) -> bool:
        slack = (self.high - self.low) * 0.012
        return self.low - slack <= value <= self.high + slack


def axis_for(low: float, high: float, values: Sequence[float], baseline: float) -> Axis:
    """The grader's range, made wider when running values leave it."""
    low, high = min([low, *values]), max([high, *values])
    if high - low < 1e-9:
        high = low + 1.0
    step = _tick_step((high - low) / 5)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    ticks = tuple(round(index * step, 10) for index in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks, baseline)


def _tick_step(rough: float) -> float:
    power = 10 ** math.floor(math.log10(rough))
    return next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * 0.999)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _upright(x: float, top: str, bottom: str, css: str) -> str:
    return f'<line class="{css}" x1="{_n(x)}%" x2="{_n(x)}%" y1="{top}" y2="{bottom}"/>'


_GRID = '<use href="#walk-grid"/>'


def grid_symbol(axis: Axis) -> str:
    """The tick and baseline lines, drawn once; every row uses them."""
    lines = "".join(_upright(axis.at(tick), "0", "100%", "line-axis") for tick in axis.ticks)
    lines += _upright(axis.at(axis.baseline), "0", "100%", "line-strong dashed")
    return f'<svg class="only-read" aria-hidden="true"><defs><g id="walk-grid">{lines}</g></defs></svg>'


def _svg(body: str) -> str:
    return f'<svg class="fall" aria-hidden="true">{body}</svg>'


def grid_row() -> str:
    """A row without a bar: the lines go through."""
    return _svg(_GRID)


def start_row(axis: Axis) -> str:
    """The row before the first step: a ring at the baseline."""
    x = axis.at(axis.baseline)
    ring = f'<circle class="fill-surface line-ink-2" cx="{_n(x)}%" cy="50%" r="4" stroke-width="1.5"/>'
    return _svg(_GRID + _upright(x, "50%", "100%", "fall-link") + ring)


def step_row(
    axis: Axis,
    *,
    start: float,
    end: float,
    low: float | None,
    high: float | None,
    is_clear: bool,
    is_running: bool = True,
) -> str:
    """One step: a bar from `start` to `end`, its interval as a whisker around the end, connectors to its neighbours.

    An upright line marks the start, where the step would have made no difference: a whisker that stays off this line
    is clear, one that crosses it could be zero. The zero of the axis says nothing of that, it is a reward of 0.
    `low` and `high` are bounds of the credit. Without bounds the bar is grey. `is_running` is off for methods whose
    marks do not add up: their bars all start at the baseline and nothing connects them.
    """
    x1, x2 = axis.at(start), axis.at(end)
    left, width = min(x1, x2), abs(x2 - x1)
    body = [_GRID]
    if is_running:
        body.append(_upright(x1, "0", str(BAR_TOP), "fall-link"))
        body.append(_upright(x2, str(BAR_TOP + BAR_HEIGHT), "100%", "fall-link"))
    if width >= _THINNEST:
        css = bar_class(end - start, low is not None, is_clear)
        body.append(
            f'<rect class="{css}" x="{_n(left)}%" y="{BAR_TOP}" width="{_n(width)}%" height="{BAR_HEIGHT}" rx="1.5"/>'
        )
    body.append(_upright(x1, str(BAR_TOP - START_OVER), str(BAR_TOP + BAR_HEIGHT + START_OVER), "fall-start"))
    if low is not None and high is not None:
        body.append(_whisker(axis, start + low, start + high))
    return _svg("".join(body))


def bar_class(credit: float, has_interval: bool, is_clear: bool) -> str:
    """Filled when the interval excludes zero, pale with outline when it does not, grey when there is none."""
    if not has_interval:
        return "fall-grey"
    tone = "plus" if credit > 0 else "minus"
    return f"fall-{tone}" if is_clear else f"fall-{tone}-pale"


def _whisker(axis: Axis, low: float, high: float) -> str:
    """An interval with caps; an end beyond the axis has none."""
    x1, x2 = axis.at(low), axis.at(high)
    lines = [f'<line class="fall-whisker" x1="{_n(x1)}%" x2="{_n(x2)}%" y1="{_MIDDLE}" y2="{_MIDDLE}"/>']
    for value, x in ((low, x1), (high, x2)):
        if axis.holds(value):
            lines.append(_upright(x, str(_MIDDLE - 4), str(_MIDDLE + 4), "fall-whisker"))
    return "".join(lines)


def gap_row(axis: Axis, start: float, end: float) -> str:
    """What a method does not explain, hatched, so that the walk still ends at the reward."""
    x1, x2 = axis.at(start), axis.at(end)
    bar = (
        f'<rect class="fall-gap" x="{_n(min(x1, x2))}%" y="8" width="{_n(abs(x2 - x1))}%" height="{BAR_HEIGHT}"/>'
        + _upright(x1, "0", "8", "fall-link")
        + _upright(x2, str(8 + BAR_HEIGHT), "100%", "fall-link")
    )
    return _svg(_GRID + bar)


def end_row(axis: Axis, reward: float) -> str:
    """The reward, with the whole way from the baseline under it."""
    x0, x1 = axis.at(axis.baseline), axis.at(reward)
    return _svg(
        _GRID
        + _upright(x1, "0", "24", "fall-end")
        + f'<line class="fall-end" x1="{_n(x0)}%" x2="{_n(x1)}%" y1="24" y2="24"/>'
        + _upright(x0, "19", "24", "fall-end")
        + f'<circle class="fill-ink" cx="{_n(x1)}%" cy="24" r="3.5"/>'
    )


def axis_labels(axis: Axis) -> str:
    """Tick labels as SVG text; the end ones keep inside the drawing."""
    words = []
    for tick in axis.ticks:
        x = axis.at(tick)
        words.append(f'<text x="{_n(x)}%" y="11" text-anchor="middle">{_label(tick)}</text>')
    return f'<svg class="fall-axis" aria-hidden="true">{"".join(words)}</svg>'


def _label(value: float) -> str:
    return f"{value:.10g}".replace("-", "−")


def dot_line(values: Sequence[float], axis: Axis) -> str:
    """Rewards of some rollouts as dots on a short line."""
    dots = "".join(
        f'<circle class="fill-ink-2 line-surface" cx="{_n(axis.at(value))}%" cy="6.5" r="3.2"/>' for value in values
    )
    line = f'<line class="line-strong" x1="{_EDGE}%" x2="{100 - _EDGE}%" y1="6.5" y2="6.5"/>'
    return f'<svg class="dots" aria-hidden="true">{line}{dots}</svg>'


def overview(credits: Sequence[float], clear: Sequence[bool], errors: Sequence[bool], limit: int = 600) -> str:
    """A whole long rollout 24 px high: one thin bar a step, up for plus and down for minus; errors as ticks."""
    size = max(1, math.ceil(len(credits) / limit))
    most = max([abs(value) for value in credits] or [1.0]) or 1.0
    count = math.ceil(len(credits) / size)
    body = ['<line class="line-axis" x1="0" x2="100%" y1="12" y2="12"/>']
    for slot in range(count):
        part = range(slot * size, min(len(credits), (slot + 1) * size))
        peak = max(part, key=lambda index: abs(credits[index]))
        height = max(0.5, 10 * abs(credits[peak]) / most)
        top = 12 - height if credits[peak] > 0 else 12
        tone = "plus" if credits[peak] > 0 else "minus"
        css = f"fall-{tone}" if clear[peak] else f"fall-{tone}-pale"
        x, width = 100 * slot / count, 100 / count
        body.append(f'<rect class="{css}" x="{_n(x)}%" y="{_n(top)}" width="{width:.3f}%" height="{_n(height)}"/>')
        if any(errors[index] for index in part):
            body.append(f'<rect class="fill-bad" x="{_n(x)}%" y="22" width="{max(width, 0.2):.3f}%" height="2"/>')
    return f'<svg class="overview-drawing" aria-hidden="true">{"".join(body)}</svg>'
