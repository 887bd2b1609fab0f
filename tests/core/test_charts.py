"""The chart theme."""

from rftstudio.core.charts import axis, figure, hline, merge_layout, token, vline


def test_figure_keeps_the_theme_where_the_room_says_nothing():
    made = figure([{"y": [1]}], {"yaxis": axis("reward"), "xaxis": {"title": "train step"}}, label="rises")
    assert made["layout"]["xaxis"]["title"]["text"] == "train step"
    assert made["layout"]["xaxis"]["gridcolor"] == token("line")
    assert made["label"] == "rises"


def test_one_series_needs_no_legend():
    assert not figure([{"y": [1], "name": "train"}], label="")["layout"]["showlegend"]
    assert figure([{"y": [1], "name": "a"}, {"y": [2], "name": "b"}], label="")["layout"]["showlegend"]


def test_pointer_words_are_made_only_where_none_are_given():
    own, made, lying = figure(
        [{"hovertemplate": "mine"}, {"name": "train"}, {"type": "bar", "orientation": "h"}],
        {"xaxis": {"title": "step"}},
        label="",
    )["data"]
    assert own["hovertemplate"] == "mine"
    assert made["hovertemplate"] == "train %{y:.4~g}<br>step %{x}<extra></extra>"
    assert "hovertemplate" not in lying


def test_merged_layouts_add_up_lines_and_notes():
    made = merge_layout(
        {"yaxis": {"range": [0, 1]}}, hline(0.4, "baseline"), vline(3, "alarm"), {"yaxis": {"dtick": 1}}
    )
    assert len(made["shapes"]) == len(made["annotations"]) == 2
    assert made["yaxis"] == {"range": [0, 1], "dtick": 1}


def test_colour_is_the_name_of_a_token():
    assert token("c1") == "--c1"
    assert token("c1", 0.25) == "--c1/0.25"
