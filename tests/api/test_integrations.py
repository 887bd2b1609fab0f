"""`integrations` of a job: its own project, name, entity and tags at the sink that its team has; refused without one."""

import openai
import pytest

from jobs.models import Job, TrainStep
from rftstudio.core.errors import UpstreamUnavailable
from rftstudio.notify.models import Sink
from rftstudio.notify.services import sink_create, sink_switch
from rftstudio.notify.sinks import copying, registry
from rftstudio.orders.models import JobOrder
from tests.api.conftest import bring_to_launch
from tests.notify.test_sinks import package  # noqa: F401

pytestmark = pytest.mark.django_db
WANTED = {"project": "tariffs", "name": "try 7", "entity": "desk", "tags": ["rft", "may"]}


@pytest.fixture
def wandb(package):  # noqa: F811
    return package("wandb")


@pytest.fixture
def launched(ai, asked, wandb, owner):
    """`launched(settings)`: a job that came with these, a train step behind it."""
    sink_create(actor=owner, kind="wandb", project="all of the team", secret="k3y")

    def make(settings: dict) -> Job:
        made = ai.fine_tuning.jobs.create(**asked, integrations=[{"type": "wandb", "wandb": settings}])
        assert made.integrations[0].wandb.project == settings["project"]
        job = bring_to_launch(made.id)
        Job.objects.filter(pk=job.pk).update(done_steps=1)
        TrainStep.objects.create(job=job, number=1, mean_reward=0.5, metrics={})
        return job

    return make


def test_jobs_own_project_name_entity_and_tags_are_used(launched, wandb, ai):
    job = launched(WANTED)
    assert copying.sinks_sweep() == 1
    (asked_of_it,) = wandb.asked
    assert {name: asked_of_it[name] for name in WANTED} == WANTED
    assert (asked_of_it["id"], asked_of_it["settings"]["api_key"]) == (job.public_id, "k3y")
    told = [event.message for event in ai.fine_tuning.jobs.list_events(job.public_id)]
    assert "Metrics are copied to Weights & Biases, project tariffs." in told


def test_run_without_a_name_bears_the_jobs_id_as_with_the_reference(launched, wandb):
    job = launched({"project": "tariffs"})
    copying.sinks_sweep()
    assert (wandb.asked[0]["name"], wandb.asked[0]["project"], wandb.asked[0]["tags"]) == (
        job.public_id,
        "tariffs",
        None,
    )


def test_copying_that_is_given_up_is_told_in_the_job(launched, wandb, ai, monkeypatch):
    job = launched(WANTED)
    monkeypatch.setattr(copying, "MOST_FAILURES", 1)

    def breaks(**values):
        raise UpstreamUnavailable("gone")

    wandb.init = breaks
    assert copying.sinks_sweep() == 0
    newest = ai.fine_tuning.jobs.list_events(job.public_id, limit=20).data
    assert any(one.message.startswith("Metrics are no longer copied to Weights & Biases.") for one in newest)


def test_team_without_such_a_sink_is_told_what_to_do(ai, asked, owner, wandb, monkeypatch):
    body = {**asked, "integrations": [{"type": "wandb", "wandb": WANTED}]}
    sink = sink_create(actor=owner, kind="wandb", project="x")
    sink_switch(actor=owner, sink=sink, is_active=False)
    with pytest.raises(openai.BadRequestError, match="An owner adds a sink") as refusal:
        ai.fine_tuning.jobs.create(**body)
    assert (refusal.value.body["param"], refusal.value.body["code"]) == ("integrations[0]", "integration_not_enabled")
    Sink.objects.update(is_active=True)
    monkeypatch.setattr(registry, "is_installed", lambda kind: False)
    with pytest.raises(openai.BadRequestError, match="pip install wandb"):
        ai.fine_tuning.jobs.create(**body)
    assert not JobOrder.objects.exists()


@pytest.mark.parametrize(
    ("integrations", "param"),
    [
        ([{"type": "mlflow"}], "integrations[0].type"),
        ([{"type": "wandb", "wandb": {**WANTED, "colour": 1}}], "integrations[0].wandb.colour"),
        ([{"type": "wandb", "wandb": {**WANTED, "name": 7}}], "integrations[0].wandb.name"),
        ([{"type": "wandb", "wandb": {**WANTED, "tags": "rft"}}], "integrations[0].wandb.tags"),
        ([{"type": "wandb", "wandb": WANTED}] * 2, "integrations[1]"),
    ],
)
def test_integration_with_a_fault_is_refused(ai, asked, integrations, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.fine_tuning.jobs.create(**asked, integrations=integrations)
    assert refusal.value.body["param"] == param
