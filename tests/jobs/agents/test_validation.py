"""Advice on tools: plain tables."""

import pytest

from jobs.agents.tools.spec import ToolSpec
from jobs.agents.validation import tool_advice, toolset_advice

GOOD = ToolSpec(
    "look_up_rate",
    "Answers with the duty rate of a good in this question's schedule.",
    {"type": "object", "properties": {"good": {"type": "string", "description": "Name of the good."}}},
)


def test_good_tool_gets_no_advice():
    assert tool_advice(GOOD) == []


@pytest.mark.parametrize(
    "spec, words",
    [
        (ToolSpec("run", GOOD.description), "does not say"),
        (ToolSpec("x" * 41, GOOD.description), "41 characters"),
        (ToolSpec("look_up"), "no description"),
        (ToolSpec("look_up", "word " * 400), "every rollout pays"),
        (ToolSpec("look_up", "Looks up."), "very short"),
        (ToolSpec("look_up", GOOD.description, {"properties": {"x": {"type": "string"}}}), "argument x has no"),
    ],
)
def test_advice_names_what_a_model_may_misread(spec, words):
    found = tool_advice(spec)
    assert any(words in problem.message for problem in found)
    assert all(problem.level == "warning" and problem.fix for problem in found)


def test_overlapping_tools_are_pointed_out():
    twin = ToolSpec("find_rate", GOOD.description, GOOD.parameters)
    assert "nearly the same description" in toolset_advice([GOOD, twin])[0].message
    cousin = ToolSpec("look_rate", "Something else entirely about tariffs and codes.", GOOD.parameters)
    assert "similar names" in toolset_advice([GOOD, cousin])[0].message
    assert toolset_advice([GOOD, ToolSpec("add", "Adds two numbers together exactly.")]) == []
