"""What the credit drawing shows without words: whether a step is clear, whatever the axis' zero does."""

import re

import pytest

from jobs.attribution.waterfall import axis_for, overview, step_row


def lines(drawing: str, css: str) -> list[tuple[float, float]]:
    """The places from and to of the lines of a class, in per cent."""
    found = re.findall(rf'<line class="{css}" x1="([\d.]+)%" x2="([\d.]+)%"', drawing)
    return [(float(x1), float(x2)) for x1, x2 in found]


def drawn(**step) -> tuple[float, tuple[float, float]]:
    """Where the step's start line stands, and its whisker from and to."""
    drawing = step_row(axis_for(0.0, 1.0, [-0.05], 0.5), **step)
    ((start, _),) = lines(drawing, "fall-start")
    return start, lines(drawing, "fall-whisker")[0]


@pytest.mark.parametrize("low, high", [(-0.54, -0.27), (0.02, 0.6)])
def test_whisker_of_a_clear_step_stays_off_its_start_line(low, high):
    start, (left, right) = drawn(start=0.35, end=0.35 + (low + high) / 2, low=low, high=high, is_clear=True)
    assert right < start or left > start


def test_whisker_of_an_unclear_step_crosses_its_start_line():
    start, (left, right) = drawn(start=0.4, end=0.35, low=-0.2, high=0.1, is_clear=False)
    assert left < start < right


def test_step_that_changed_nothing_is_its_start_line_alone():
    drawing = step_row(axis_for(0.0, 1.0, [], 0.5), start=0.5, end=0.5, low=-0.1, high=0.1, is_clear=False)
    assert len(lines(drawing, "fall-start")) == 1
    assert "<rect" not in drawing


def test_overview_ticks_the_steps_that_failed():
    assert overview([0.1, -0.2, 0.0], [True] * 3, [False, True, False]).count("fill-bad") == 1
