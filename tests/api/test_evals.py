"""A job's attached eval through the unmodified SDK."""

import openai
import pytest
from openai.types import EvalRetrieveResponse
from openai.types.evals import RunRetrieveResponse
from openai.types.evals.runs import OutputItemListResponse

from tests.api.conftest import bring_to_launch
from tests.jobs.conftest import look_until

pytestmark = pytest.mark.django_db


def test_eval_shows_baseline_and_checks_with_their_rollouts(ai, foreign, asked, trainer):  # noqa: F811
    made = ai.fine_tuning.jobs.create(**asked)
    with pytest.raises(openai.NotFoundError):
        ai.evals.retrieve(made.eval_id)
    look_until(bring_to_launch(made.id), seconds=40)

    found = ai.evals.retrieve(made.eval_id)
    EvalRetrieveResponse.model_validate_json(found.model_dump_json(by_alias=True))
    runs = list(ai.evals.runs.list(made.eval_id, limit=2))
    assert [run.name for run in runs] == ["Baseline 1", "Step 1", "Step 2", "Step 3"]
    for run in runs:
        RunRetrieveResponse.model_validate_json(run.model_dump_json(by_alias=True))
    assert runs[0].result_counts.to_dict() == {"total": 12, "passed": 4, "failed": 8, "errored": 0}
    assert runs[1].result_counts.total == 10
    assert ai.evals.runs.retrieve(runs[1].id, eval_id=made.eval_id).to_dict() == runs[1].to_dict()

    items = list(ai.evals.runs.output_items.list(runs[1].id, eval_id=made.eval_id, limit=3))
    assert len({item.id for item in items}) == 10
    for item in items:
        OutputItemListResponse.model_validate_json(item.model_dump_json(by_alias=True))
    one = ai.evals.runs.output_items.retrieve(items[0].id, eval_id=made.eval_id, run_id=runs[1].id)
    assert one.to_dict() == items[0].to_dict()
    assert one.datasource_item["label"] is not None
    assert one.results[0].name == "exact"
    assert [message.role for message in one.sample.output] == ["assistant", "tool", "assistant"]
    passed = list(ai.evals.runs.output_items.list(runs[1].id, eval_id=made.eval_id, status="pass"))
    assert len(passed) == runs[1].result_counts.passed
    for call in (
        lambda: foreign.evals.retrieve(made.eval_id),
        lambda: foreign.evals.runs.list(made.eval_id),
        lambda: foreign.evals.runs.output_items.list(runs[1].id, eval_id=made.eval_id),
    ):
        with pytest.raises(openai.NotFoundError):
            call()


def test_runs_and_items_ask_as_many_queries_for_many_as_for_few(ai, asked, trainer, django_assert_max_num_queries):  # noqa: F811
    made = ai.fine_tuning.jobs.create(**asked)
    look_until(bring_to_launch(made.id), seconds=40)
    with django_assert_max_num_queries(6):
        runs = ai.evals.runs.list(made.eval_id).data
    with django_assert_max_num_queries(7):
        ai.evals.runs.output_items.list(runs[1].id, eval_id=made.eval_id)
