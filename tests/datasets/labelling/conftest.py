"""Two annotators, an adjudicator, and a task they share."""

import pytest

from datasets.labelling import services
from rftstudio.teams.models import Role
from tests.conftest import actor_in
from tests.datasets.helpers import import_bytes, jsonl, row

FIELDS = [
    {"name": "right", "label": "Is it right?", "kind": "choice", "required": True,
     "options": [{"value": "Yes", "label": "Yes", "key": "y"}, {"value": "No", "label": "No", "key": "n"}]},
    {"name": "note", "label": "Note", "kind": "note", "required": False},
]  # fmt: skip


@pytest.fixture
def anna(team):
    return actor_in(team, Role.EXPERT)


@pytest.fixture
def bert(team):
    return actor_in(team, Role.EXPERT)


@pytest.fixture
def cleo(team):
    return actor_in(team, Role.EXPERT)


@pytest.fixture
def version(member):
    rows = [row(f"Question {n}?", reference_answer=f"secret reference {n}") for n in range(4)]
    return import_bytes(member, jsonl(*rows), name="To label")


@pytest.fixture
def task(member, version, anna, bert, cleo):
    return services.task_create(
        actor=member, name="Is it right?", fields=FIELDS, version=version, overlap=2,
        annotators=[anna.user, bert.user], adjudicators=[cleo.user],
    )  # fmt: skip
