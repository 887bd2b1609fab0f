"""Drawings of the rollout pages that no other room needs. Numbers in, SVG out."""

from collections.abc import Callable
from html import escape

from jobs.rollouts.explorer import Histogram
from jobs.rollouts.filters import range_text
from jobs.rollouts.models import Rollout
from jobs.rollouts.reading import Reading
from rftstudio.core.show import show_reward

_LEFT, _RIGHT = 2.0, 88.0


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def group_line(reading: Reading, url_of: Callable[[Rollout], str], beside: Rollout | None = None) -> str:
    """The rewards of the group on one line: this rollout, the one beside it, the rest as rings; each opens."""
    low, high = reading.low, reading.high

    def place(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - low) / ((high - low) or 1.0)

    baseline, own = reading.siblings.baseline, reading.rollout.reward
    body = [f'<line class="line-strong" x1="{_LEFT}%" x2="{_RIGHT}%" y1="28" y2="28"/>']
    for end in (low, high):
        if baseline is None or abs(place(baseline) - place(end)) > 4:  # else the baseline's own words stand there
            body.append(f'<text x="{_n(place(end))}%" y="46" text-anchor="middle">{show_reward(end, 0)}</text>')
    if baseline is not None:
        x = place(baseline)
        side = "end" if x > 60 else "start" if x < 20 else "middle"
        body.append(f'<line class="line-ink-2 dashed" x1="{_n(x)}%" x2="{_n(x)}%" y1="6" y2="34"/>')
        body.append(f'<text x="{_n(x)}%" y="46" text-anchor="{side}">mean of others {show_reward(baseline)}</text>')
    ungraded = 0
    taken: dict[int, int] = {}  # how many marks stand at about this place already
    for other in [*reading.siblings.others, reading.rollout]:
        is_self = other.pk == reading.rollout.pk
        if other.reward is None:
            x, ungraded = 93.0 + 2.2 * min(ungraded, 3), ungraded + 1
            css, dash = "fill-surface line-ink-3", ' stroke-dasharray="2 1.6"'
        else:
            x, dash = place(other.reward), ""
            css = "fill-accent line-surface" if is_self else "fill-surface line-ink-2"
            if beside is not None and other.pk == beside.pk:
                css = "fill-ink-2 line-surface"
        above = taken[round(x / 1.5)] = taken.get(round(x / 1.5), -1) + 1
        y = 17 - 5 * min(above, 2)
        mark = f'<circle class="{css}" cx="{_n(x)}%" cy="{y}" r="{6.5 if is_self else 5}" stroke-width="1.5"{dash}/>'
        words = (
            f"Rollout {other.sample_index + 1}, {show_reward(other.reward) if other.reward is not None else 'ungraded'}"
        )
        if is_self:
            body.append(f"<g><title>{words}, this one</title>{mark}</g>")
        else:
            body.append(
                f'<a href="{escape(url_of(other))}" aria-label="Open {words.lower()}"><title>{words}</title>{mark}</a>'
            )
    if own is not None and (baseline is None or abs(place(own) - place(baseline)) > 22) and own not in (low, high):
        body.append(f'<text class="strong" x="{_n(place(own))}%" y="46" text-anchor="middle">{show_reward(own)}</text>')
    return f'<svg class="drawing group-line" role="group" aria-label="Rewards of the group">{"".join(body)}</svg>'


def histogram(
    data: Histogram, url_of: Callable[[str], str], *, name: str, unit: str = "rollouts", tone: str = "c1"
) -> str:
    """Bars that filter: each is a link. Bars outside the present filter are grey."""
    if not data.bars:
        return ""
    count, most = len(data.bars), data.tallest or 1
    gap = 12 / count
    width = (100 - gap * (count - 1)) / count
    body = []
    for index, bar in enumerate(data.bars):
        height = 0.0 if not bar.count else max(1.5, 58 * bar.count / most)
        x = index * (width + gap)
        ends = range_text((round(bar.low, 4), round(bar.high, 4)))
        words = f"{name} {ends.replace('-', ' to ')}: {bar.count:,} {unit}"
        fill = f"fill-{tone}" if bar.is_selected else "fill-idle"
        rect = (
            f'<rect class="fill-none hit" x="{_n(x)}%" y="0" width="{_n(width)}%" height="62"/>'
            f'<rect class="{fill}" x="{_n(x)}%" y="{_n(62 - height)}" width="{_n(width)}%" height="{_n(height)}"/>'
        )
        if bar.count:
            body.append(f'<a href="{escape(url_of(ends))}" aria-label="{words}"><title>{words}</title>{rect}</a>')
        else:
            body.append(f"<g><title>{words}</title>{rect}</g>")
    first, last = data.bars[0].low, data.bars[-1].high
    body.append('<line class="line-strong" x1="0" x2="100%" y1="62.5" y2="62.5"/>')
    body.append(f'<text x="0" y="76">{_tick(first)}</text><text x="100%" y="76" text-anchor="end">{_tick(last)}</text>')
    if count > 4:
        body.append(f'<text x="50%" y="76" text-anchor="middle">{_tick((first + last) / 2)}</text>')
    return f'<svg class="drawing histogram" role="group" aria-label="{escape(name)}">{"".join(body)}</svg>'


def _tick(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
