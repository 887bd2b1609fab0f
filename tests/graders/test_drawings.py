"""Small drawings of the graders room."""

from graders.drawings import MOST, dot_strip


def test_dots_pile_up_and_ungraded_ones_are_not_drawn():
    drawing = dot_strip([0.0, 0.0, 1.0, None], low=0.0, high=1.0, mark=0.75)
    assert drawing.count("<circle") == 3
    assert 'aria-label="3 rewards from 0.00 to 1.00"' in drawing
    assert "dashed" in drawing


def test_a_high_pile_is_told_by_its_count():
    drawing = dot_strip([0.5] * 12, low=0.0, high=1.0, mark=3.0)
    assert drawing.count("<circle") == MOST
    assert ">12</text>" in drawing
    assert "dashed" not in drawing  # the mark lies outside


def test_nothing_graded_is_said():
    assert 'aria-label="no reward"' in dot_strip([None], low=0.0, high=1.0, mark=0.5)
