"""Every starting point is valid and grades its own rows as it says."""

import json

import pytest

from graders.grading import compile_grader
from graders.recipe_files import fields_of
from graders.samples import sample_from
from graders.starting import starting_points
from graders.validation import grader_problems
from tests.graders.doubles import chat_reply, clients

FIELDS = {"Law", "Tax", "Genetics", "Code", "Finance", "Agents"}


def test_each_field_has_a_starting_point():
    assert {point.field for point in starting_points().values()} >= FIELDS


@pytest.mark.parametrize("key", starting_points())
def test_starting_point_fits_its_rows(key):
    point = starting_points()[key]
    assert grader_problems(point.config, fields=fields_of(row["item"] for row in point.rows)) == []


CASES = [
    pytest.param(point.config, row, id=f"{point.key}-{number}")
    for point in starting_points().values()
    for number, row in enumerate(point.rows)
]


@pytest.mark.parametrize("config,row", CASES)
def test_row_gets_its_reward(config, row):
    answers = [chat_reply(json.dumps({"steps": [], "result": mark})) for mark in row.get("marks", [])]
    answers += [json.dumps({"score": score}) for score in row.get("scores", [])]
    network, _ = clients(*(answers or ["{}"]))
    grade = compile_grader(config, network).grade(row["item"], sample_from(row["sample"]))
    assert grade.reward == pytest.approx(row["reward"], abs=1e-3), grade
