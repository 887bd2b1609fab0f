"""Supervised jobs at `/v1`: chats with their answers in the reference's form, from the file to the tuned model."""

import openai
import pytest
from openai.types.fine_tuning import FineTuningJob, FineTuningJobEvent
from openai.types.fine_tuning.jobs import FineTuningJobCheckpoint

from datasets.models import Item, SourceFile
from jobs.models import Job
from jobs.spec import run_spec
from rftstudio.orders import services as orders
from rftstudio.orders.models import JobOrder
from rftstudio.orders.shown_rows import BadRow, item_of, items_file
from rftstudio.teams.actor import system_actor
from tests.api.conftest import bring_to_launch, jsonl, rows_of
from tests.jobs.conftest import look_until

pytestmark = pytest.mark.django_db


def says(role: str, content, **more) -> dict:
    return {"role": role, "content": content, **more}


def chats(count: int, prefix: str = "train") -> list[dict]:
    return [{"messages": [says("system", "Be brief."), says("user", f"{prefix} {n}"), says("assistant", f"It is {n}.")]}
            for n in range(count)]  # fmt: skip


@pytest.fixture
def shown(upload, alias) -> dict:
    """A supervised request that works."""
    return {
        "model": "o4-mini",
        "training_file": upload(chats(12)),
        "validation_file": upload(chats(10, "validation"), "valid.jsonl"),
        "suffix": "brief",
        "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2, "batch_size": "auto"}}},
    }


def test_supervised_job_walks_from_chats_to_tuned_model(ai, shown, trainer):  # noqa: F811
    assert ai.files.retrieve(shown["training_file"]).status == "processed"
    made = ai.fine_tuning.jobs.create(**shown)
    FineTuningJob.model_validate(made.model_dump())
    wanted = {"n_epochs": 2, "batch_size": "auto", "learning_rate_multiplier": "auto"}
    assert made.method.to_dict() == {"type": "supervised", "supervised": {"hyperparameters": wanted}}
    assert made.hyperparameters.to_dict() == wanted

    job = bring_to_launch(made.id)
    assert isinstance(job, Job)
    assert (job.method, job.demonstrations) == ("supervised", {"from": "turns", "field": "demonstration"})
    work = run_spec(job)
    first = list(work.train)[0]
    assert first["item"]["messages"] == [says("system", "Be brief."), says("user", "train 0")]
    assert first["turns"] == [says("assistant", "It is 0.")]
    assert [row["item"]["reference_answer"] for row in work.validation][:2] == ["It is 0.", "It is 1."]
    look_until(job, seconds=40.0)
    orders.orders_advance()

    done = ai.fine_tuning.jobs.retrieve(made.id)
    FineTuningJob.model_validate(done.model_dump())
    assert done.status == "succeeded"
    assert done.fine_tuned_model.startswith("ft:o4-mini:duty-desk:brief:")
    assert done.hyperparameters.to_dict() == {"n_epochs": 2, "batch_size": 8, "learning_rate_multiplier": 1.0}
    assert done.hyperparameters.to_dict() == done.method.supervised.hyperparameters.to_dict()
    assert done.usage_metrics is None
    assert [one.id for one in ai.fine_tuning.jobs.list(limit=1)][0] == made.id

    events = list(ai.fine_tuning.jobs.list_events(made.id, limit=3))
    for event in events:
        FineTuningJobEvent.model_validate(event.model_dump())
    metrics = [event for event in events if event.type == "metrics"]
    assert len(metrics) == 4, "12 chats in batches of 8, twice"
    assert metrics[0].message.startswith("Step 4/4, training loss=")
    assert metrics[0].data["train_loss"] == metrics[0].data["loss"]
    for one in ai.fine_tuning.jobs.checkpoints.list(made.id):
        FineTuningJobCheckpoint.model_validate(one.model_dump())
        assert one.metrics.train_loss > 0
    lines = ai.files.content(done.result_files[0]).text.splitlines()
    assert lines[0].startswith("step,train_loss,train_accuracy")
    assert len(lines) == 5


def test_body_without_method_is_a_supervised_job_as_with_the_reference(ai, shown):
    del shown["method"]
    made = ai.fine_tuning.jobs.create(**shown, hyperparameters={"n_epochs": 3})
    assert made.method.supervised.hyperparameters.n_epochs == 3
    told = [event.message for event in ai.fine_tuning.jobs.list_events(made.id)]
    assert "No method was named, so this is a supervised job, as with the hosted service." in told


def test_same_bytes_are_no_version_for_the_other_method(ai, shown, asked, upload, trainer):  # noqa: F811
    """A file of questions is none of chats, and the other way round; each says so by its line."""
    swapped = [{**asked, "training_file": shown["training_file"]}, {**shown, "training_file": upload(rows_of(12))}]
    bring_to_launch(ai.fine_tuning.jobs.create(**shown).id)
    for body, words in zip(
        swapped, ("from the assistant; it must be from the user", "not from the assistant"), strict=True
    ):
        made = ai.fine_tuning.jobs.create(**body)
        bring_to_launch(made.id)
        error = ai.fine_tuning.jobs.retrieve(made.id).error
        assert (error.code, error.param) == ("invalid_training_file", "training_file")
        assert words in error.message
        assert "ine 1" in error.message


def test_derived_files_are_not_listed(ai, shown, trainer):  # noqa: F811
    before = {file.id for file in ai.files.list()}
    bring_to_launch(ai.fine_tuning.jobs.create(**shown).id)
    assert {file.id for file in ai.files.list()} == before
    assert Item.objects.count() == 22
    made = SourceFile.objects.count()
    for row in (JobOrder.objects.get().training_file, JobOrder.objects.get().validation_file):
        items_file(actor=system_actor(row.team), file=row, param="training_file")
    assert SourceFile.objects.count() == made, "a second look makes no second copy"


def test_chats_at_fault_are_told_when_the_file_comes(ai):
    rows = [*chats(2), {"messages": [says("user", "and now?")]}, {**chats(1)[0], "tools": [{"type": "function"}]}]
    file = ai.files.create(file=("chats.jsonl", jsonl(rows)), purpose="fine-tune")
    assert file.status == "error"
    assert file.status_details.startswith("Line 3: The last message is not from the assistant.")
    assert "Line 4: Rows that call tools" in file.status_details


def test_later_answers_and_weights_are_kept():
    talk = [says("assistant", "Welcome."), says("user", [{"type": "text", "text": "a?"}]), says("assistant", "b", weight=0),
            says("user", "c?"), says("assistant", "d", weight=1), says("user", "e?"), says("assistant", "f", weight=0),
            says("user", "g?"), says("assistant", "h", name=None)]  # fmt: skip
    item = item_of({"messages": talk, "topic": "letters", "reference_answer": "of somebody else"})
    assert [one["content"] for one in item["messages"]] == ["Welcome.", "a?", "b", "c?"]
    assert [one.get("weight") for one in item["demonstration"]] == [1, None, 0, None, None]
    assert [one["content"] for one in item["demonstration"]] == ["d", "e?", "f", "g?", "h"]
    assert (item["reference_answer"], item["topic"]) == ("d", "letters")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({}, "`messages` is missing"),
        ({"messages": ["hello"]}, "none of the roles"),
        ({"messages": [says("user", "a"), says("assistant", "")]}, "The answer is empty"),
        ({"messages": [says("assistant", "a")]}, "follows one of the user"),
        ({"messages": [says("user", "a"), says("assistant", "b", weight=0)]}, "has a weight"),
        ({"messages": [says("user", "a"), says("assistant", "b", weight=0.5)]}, "0 or 1"),
        ({"messages": [says("user", "a"), says("assistant", None, tool_calls=[{"id": "1"}])]}, "calls a tool"),
        ({"messages": [says("user", [{"type": "image_url"}]), says("assistant", "b")]}, "other than text"),
        ({"messages": [says("user", "a"), says("assistant", "b", mood="calm")]}, "the key mood"),
        ({**chats(1)[0], "demonstration": 1}, "Call yours otherwise"),
    ],
)  # fmt: skip
def test_row_that_cannot_be_learnt_says_why(row, words):
    with pytest.raises(BadRow, match=words):
        item_of(row)


@pytest.mark.parametrize(
    ("method", "param", "words"),
    [
        ({"type": "supervised", "supervised": {"grader": {}}}, "method.supervised.grader", "Unknown parameter"),
        ({"type": "supervised", "reinforcement": {}}, "method.reinforcement", "Unknown parameter"),
        ({"type": "supervised", "supervised": []}, "method.supervised", "Missing"),
        ({"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 0}}},
         "method.supervised.hyperparameters.n_epochs", "whole number"),
        ({"type": "supervised", "supervised": {"hyperparameters": {"compute_multiplier": 1}}},
         "method.supervised.hyperparameters.compute_multiplier", "Unknown parameter"),
        ({"type": "dpo", "dpo": {}}, "method.type", "DPO"),
    ],
)  # fmt: skip
def test_supervised_request_with_a_fault_is_refused(ai, shown, method, param, words):
    with pytest.raises(openai.BadRequestError, match=words) as refusal:
        ai.post("/fine_tuning/jobs", body={**shown, "method": method}, cast_to=object)
    assert refusal.value.body["param"] == param
    assert not JobOrder.objects.exists()
