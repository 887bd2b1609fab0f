"""The form shows a recipe and gives the same recipe back."""

import json
from html.parser import HTMLParser

import pytest
from django.template.loader import render_to_string

from graders.forms import config_changed, config_from, node_of, starter
from graders.kinds.registry import KINDS
from graders.starting import starting_points
from graders.validation import grader_problems, has_errors
from tests.graders.cases import load

EXACT = {
    "type": "string_check",
    "name": "e",
    "operation": "eq",
    "input": "{{sample.output_text}}",
    "reference": "{{item.r}}",
}


class Posted(HTMLParser):
    """What a browser would send for the form."""

    def __init__(self, html):
        super().__init__()
        self.data, self.area, self.select = {}, None, None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "input" and found.get("name"):
            if found.get("type") != "checkbox" or "checked" in found:
                self.data[found["name"]] = found.get("value") or ""
        elif tag == "textarea":
            self.area = found["name"]
            self.data[self.area] = ""
        elif tag == "select":
            self.select = found["name"]
        elif tag == "option" and self.select and ("selected" in found or self.select not in self.data):
            self.data[self.select] = found.get("value", "")

    def handle_data(self, text):
        if self.area:
            self.data[self.area] += text

    def handle_endtag(self, tag):
        if tag == "textarea":
            self.data[self.area] = self.data[self.area].removeprefix("\n")
            self.area = None
        elif tag == "select":
            self.select = None


def through_the_form(config):
    html = render_to_string("graders/_recipe.html", {"node": node_of(config), "kinds": KINDS, "can_edit": True})
    return config_from(Posted(html).data)


RECIPES = {
    **{key: point.config for key, point in starting_points().items()},
    **{name: load(f"{name}.json") for name in [
        "clause_model_grader", "clause_multi_grader", "countdown_python_grader", "countdown_score_model_grader",
        "level1_f1_multi", "sentiment_similarity", "zava_score_model_grader"]},
    "every step": {"type": "steps", "name": "s", "grader": EXACT, "combine": "sum"},
    "labels": {"type": "label_model", "name": "l", "model": "m", "labels": ["a", "b"], "passing_labels": ["a"],
               "input": [{"role": "user", "content": "Label {{ sample.output_text }}\n\n"}]},
    "parts": {"type": "score_model", "name": "p", "model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]},
    "unknown keys": {**EXACT, "comment": {"by": "me"}},
    "endpoint": {"type": "endpoint", "name": "e", "url": "https://x.example/", "headers": {"Authorization": "**********"}},
    "json schema": {"type": "json_schema", "name": "j", "input": "{{sample.output_text}}", "schema": {"type": "object"}},
    "regex": {"type": "regex", "name": "r", "input": "x", "pattern": "a b", "flags": "i", "whole": True},
}  # fmt: skip


def plain(config):
    """Without what a form does not tell apart: absent and empty, absent and false, a part's generated name."""
    if isinstance(config, dict):
        kept = {k: plain(v) for k, v in config.items() if v not in (None, False, "", {}) and k not in ("name",)}
        kind = KINDS.get(config.get("type", ""))
        for field in kind.fields if kind else ():
            if kept.get(field.name) == field.default:
                kept.pop(field.name, None)
        return kept
    return [plain(each) for each in config] if isinstance(config, list) else config


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_survives_the_form(name):
    assert plain(through_the_form(RECIPES[name])) == plain(RECIPES[name])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_started_and_drawn(kind):
    config = starter(kind)
    html = render_to_string(
        "graders/_recipe.html", {"node": node_of(config, grader_problems(config)), "kinds": KINDS, "can_edit": True}
    )
    assert KINDS[kind].title in html or kind == "multi"
    assert config_from(Posted(html).data)["type"] == kind


def test_problem_stands_at_its_control():
    config = {"type": "multi", "graders": {"a": {**EXACT, "reference": "{{ itm.r }}"}}, "calculate_output": "b"}
    node = node_of(config, grader_problems(config))
    found = {control.path: [p.code for p in control.problems] for control in node.all_controls() if control.problems}
    assert found == {"graders.a.reference": ["template_namespace"], "calculate_output": ["formula_unknown_name"]}
    assert node.count == 2
    assert node.parts[0].count == 1


def test_numbers_that_are_none_stay_text_and_are_pointed_at():
    config = config_from({"g-type": "tool_budget", "g-max_calls": "three", "g-penalty": "NaN"})
    assert (config["max_calls"], config["penalty"]) == ("three", "NaN")
    assert has_errors(grader_problems(config))


@pytest.mark.parametrize(
    "data", [{}, {"g-type": "nothing"}, {"g-type": "multi", "g-count": "x"}, {"g-type": "multi", "g-count": "99999"}]
)
def test_any_post_is_a_recipe(data):
    json.dumps(config_from(data))


def test_buttons_change_the_recipe():
    multi = config_changed(EXACT, "type:multi")
    assert multi["graders"]["exact"]["operation"] == "eq"
    more = config_changed(multi, "add:numeric")
    assert list(more["graders"]) == ["exact", "amount"]
    assert list(config_changed(more, "up:1")["graders"]) == ["amount", "exact"]
    assert list(config_changed(more, "remove:0")["graders"]) == ["amount"]
    three = config_changed(more, "add:set_f1")
    assert list(config_changed(three, "move:2:0")["graders"]) == ["set_f1", "exact", "amount"]
    assert list(config_changed(three, "move:0:2")["graders"]) == ["amount", "set_f1", "exact"]
    assert [config_changed(three, bad) for bad in ("move:9:0", "move:x:1", "move:1", "move::")] == [three] * 4
    assert config_changed(more, "remove:9") == more
    assert config_changed(EXACT, "type:text_similarity")["reference"] == "{{item.r}}"
