"""Small drawings of the graders room. Numbers in, SVG out."""

from collections import Counter
from collections.abc import Sequence

PLACES = 40
WIDTH, LEFT, RIGHT = 260.0, 6.0, 254.0
STEP = 7.0
MOST = 4  # dots on one another; more are drawn as one with its count


def dot_strip(rewards: Sequence[float | None], *, low: float, high: float, mark: float, tone: str = "c1") -> str:
    """One dot for each reward, piled up where they fall together; a dashed line at the pass mark."""
    span = (high - low) or 1.0
    piles = Counter(round((reward - low) / span * PLACES) for reward in rewards if reward is not None)
    tallest = min(MOST, max(piles.values(), default=1))
    height = STEP * tallest + 5
    base = height - 1.5
    body = [f'<line class="line-strong" x1="{LEFT - 4:g}" x2="{RIGHT + 4:g}" y1="{base:g}" y2="{base:g}"/>']
    for place, count in sorted(piles.items()):
        x = LEFT + (RIGHT - LEFT) * place / PLACES
        for level in range(min(count, MOST)):
            body.append(f'<circle class="fill-{tone}" cx="{x:.1f}" cy="{base - 4 - STEP * level:.1f}" r="3"/>')
        if count > MOST:
            body.append(f'<text x="{x:.1f}" y="9" text-anchor="middle">{count}</text>')
    if low <= mark <= high:
        x = LEFT + (RIGHT - LEFT) * (mark - low) / span
        body.append(f'<line class="line-ink-2 dashed" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{base:g}"/>')
    graded = [reward for reward in rewards if reward is not None]
    words = f"{len(graded)} rewards from {min(graded):.2f} to {max(graded):.2f}" if graded else "no reward"
    return (
        f'<svg class="drawing dot-strip" viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{words}">'
        f"{''.join(body)}</svg>"
    )
