"""Server-drawn shapes are well-formed, safe, and say in words what they show."""

from xml.etree import ElementTree

import pytest

from rftstudio.core import drawings, json_tree
from rftstudio.core.icons import GLYPHS, ICONS
from rftstudio.core.looks import LOOKS, look_of

NASTY = "<script>\"'&"


def parsed(svg: str) -> ElementTree.Element:
    assert "style=" not in svg
    return ElementTree.fromstring(svg)


@pytest.mark.parametrize("body", [*ICONS.values(), *GLYPHS.values()])
def test_icons_are_well_formed(body):
    parsed(f"<svg>{body}</svg>")


def test_each_look_has_its_glyph():
    assert {look.glyph for look in LOOKS.values()} <= GLYPHS.keys()


def test_unknown_status_is_shown_in_its_own_words():
    assert look_of("half_baked").word == "half baked"


@pytest.mark.parametrize("share,width", [(0.5, "50"), (2, "100"), (-1, None), (None, None)])
def test_bar_stays_in_its_track(share, width):
    rects = parsed(drawings.bar(share, "c1", NASTY)).findall("rect")
    assert (rects[1].get("width") if len(rects) > 1 else None) == width


def test_range_strip_is_drawn_to_scale_and_its_rings_lead_to_what_happened():
    drawn = drawings.range_strip(
        25.0, 50.0, 100.0, words=["25 s", "50 s", "100 s"], dots=[{"at": 50.0, "label": "Job 3 <x>", "url": "/jobs/3/"}]
    )
    # 6 + 332 × value ÷ 104
    assert '<rect class="fill-plus-soft" x="85.81" y="24" width="239.42"' in drawn
    assert 'd="M165.62 20V43"' in drawn
    assert 'cx="165.62"' in drawn
    assert "Job 3 &lt;x&gt;" in drawn
    assert 'aria-label="From 25 s to 100 s, most likely 50 s; earlier jobs: 1"' in drawn


def test_stacked_bar_never_leaves_its_track():
    rects = parsed(drawings.stacked_bar([(90, "ink-2"), (30, "ink-3")], 100)).findall("rect")
    assert sum(float(rect.get("width")) for rect in rects[1:]) <= 100


def test_stacked_bar_of_nothing_is_empty():
    assert len(parsed(drawings.stacked_bar([(5, "ink-2")], 0)).findall("rect")) == 1


def test_rollout_strip_says_what_it_shows_and_keeps_ungraded_apart():
    dots = [{"reward": 0.2}, {"reward": 0.9, "passed": True, "url": "/x?a=1&b=2", "label": NASTY}, {"reward": None}]
    svg = parsed(drawings.rollout_strip(dots, mean=0.5))
    assert svg.get("aria-label") == "3 rollouts, rewards 0.20 to 0.90, 1 pass, 1 ungraded"
    assert svg.find("a").get("href") == "/x?a=1&b=2"


@pytest.mark.parametrize("dots", [[], [{"reward": None}], [{"reward": 7}]])
def test_rollout_strip_takes_any_group(dots):
    parsed(drawings.rollout_strip(dots, low=0, high=0))


def test_step_ribbon_names_parallel_calls_together():
    svg = parsed(drawings.step_ribbon("look_up>read+read>answer", part_after=1, failed=[1]))
    assert svg.get("aria-label") == "look up, read and read, answer"


def test_step_ribbon_cuts_long_paths_and_says_how_much():
    svg = drawings.step_ribbon(">".join(["read"] * 30))
    assert "+6" in parsed(svg).find("text").text


@pytest.mark.parametrize("values", [[], [1], [None, None], [1, None, 1], [0, 1, 2]])
def test_spark_takes_any_series(values):
    svg = drawings.spark(values)
    assert svg == "" or parsed(svg) is not None


def test_json_tree_escapes_and_folds():
    html = json_tree.tree({NASTY: NASTY, "many": dict.fromkeys("abcdef", 1), "few": [1], "none": None})
    assert "<script>" not in html
    assert html.count("<details>") == 1  # the one with more than five keys
    assert "{ 6 keys }" in html


def test_json_tree_cuts_long_text_but_keeps_it_reachable():
    html = json_tree.tree("x" * 5000)
    assert "show all 5 kB" in html
    assert "x" * 5000 in html


def test_json_above_a_megabyte_is_not_drawn():
    assert json_tree.too_large("x" * 1_000_001)
    assert not json_tree.too_large({"a": 1})
