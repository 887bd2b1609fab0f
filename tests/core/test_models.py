"""Fields that every room may use."""

import json

import pytest

from graders.models import Grader
from jobs.agents.models import Tool

ORDERED = {"zebra": 1, "a": {"long_name": 1, "b": 2}, "mm": [3]}


@pytest.mark.django_db
def test_recipes_and_schemas_come_back_in_the_order_they_were_written(team):
    """PostgreSQL's jsonb would sort the keys, and with them the graders of a form and a tool's arguments in a prompt."""
    grader = Grader.objects.create(team=team, name="g", draft=ORDERED)
    tool = Tool.objects.create(team=team, name="t", transport="builtin", parameters=ORDERED)
    assert json.dumps(Grader.objects.get(pk=grader.pk).draft) == json.dumps(ORDERED)
    assert json.dumps(Tool.objects.get(pk=tool.pk).parameters) == json.dumps(ORDERED)
