"""Many rows in few statements: nothing lost at the edges, defaults filled, constraints kept."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs.rollouts import bulk, search
from jobs.rollouts.models import Rollout, Step
from tests.factories.rollouts import RolloutBatchFactory

pytestmark = pytest.mark.django_db


def rows(batch, count):
    for number in range(count):
        yield {
            "team_id": batch.team_id, "batch_id": batch.pk, "group_key": "item", "sample_index": number,
            "trace_id": f"trace_{number}", "answer": f"pears number{number}", "sub_rewards": {"a": number},
        }  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 26, 27, 53, 130])
def test_every_row_arrives_once_and_is_found(team, count):
    batch = RolloutBatchFactory(team=team)
    assert bulk.insert(Rollout, rows(batch, count)) == count
    stored = Rollout.objects.order_by("sample_index")
    assert [(row.sample_index, row.sub_rewards, row.flags) for row in stored] == [
        (n, {"a": n}, []) for n in range(count)
    ]
    assert len({row.public_id for row in stored}) == count
    assert all(row.public_id.startswith("roll-") and row.created_at for row in stored)
    assert search.count(team.pk, "pears", 1000) == count
    if count:
        assert search.count(team.pk, f"number{count - 1}", 9) == 1


def test_few_statements_are_asked(team):
    batch = RolloutBatchFactory(team=team)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        bulk.insert(Rollout, rows(batch, 500))
    assert len(asked) <= 2


def test_a_row_that_is_there_already_refuses_all(team):
    batch = RolloutBatchFactory(team=team)
    bulk.insert(Rollout, rows(batch, 1))
    with pytest.raises(IntegrityError), transaction.atomic():
        bulk.insert(Rollout, rows(batch, 60))
    assert Rollout.objects.count() == 1


def test_doubled_indexes_are_gone_and_their_work_is_done_by_others(team):
    with connection.cursor() as cursor:
        for model, column in ((Rollout, "team_id"), (Rollout, "batch_id"), (Step, "rollout_id")):
            found = connection.introspection.get_constraints(cursor, model._meta.db_table).values()
            begins = [
                about for about in found if (about["index"] or about["unique"]) and about["columns"][:1] == [column]
            ]
            assert begins
            assert not [about for about in begins if about["columns"] == [column]]
