"""Another Studio as trainer: the backend for hosted services, pointed at our own door."""

import pytest

from jobs.backends.base import Run, RunSpec
from jobs.backends.registry import backend_get
from jobs.models import Job
from rftstudio.orders.models import JobOrder, ModelAlias
from rftstudio.teams.services import api_key_create
from tests.api.conftest import EXACT, bring_to_launch, rows_of, trainer  # noqa: F401
from tests.jobs.conftest import look_until

pytestmark = pytest.mark.django_db(transaction=True)


def work() -> RunSpec:
    agent = {
        "system_prompt": "Be short.",
        "tools": [],
        "limits": {"max_steps": 4},
        "sampling": {},
        "response_format": None,
    }
    hyper = {
        "n_epochs": 1,
        "batch_size": 6,
        "learning_rate_multiplier": 1.0,
        "eval_interval": 1,
        "reasoning_effort": "default",
    }
    spec = {"base_model": "o4-mini", "seed": 7, "agent": agent, "grader": EXACT, "hyperparameters": hyper}
    return RunSpec(
        spec,
        iter([{"key": str(n), "item": item} for n, item in enumerate(rows_of(12))]),
        iter([{"key": str(n), "item": item} for n, item in enumerate(rows_of(10, "v"))]),
    )


def test_another_studio_trains_for_us(live_server, owner, settings, trainer):  # noqa: F811
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["localhost", "127.0.0.1"]
    ModelAlias.objects.create(name="o4-mini", target="tiny/base", baseline_items=4, baseline_samples=3)
    secret = api_key_create(actor=owner, name="the other Studio")[1]
    backend = backend_get("openai")
    run = Run("ftjob-here", connection={"base_url": live_server.url + "/v1", "api_key": secret})
    first = backend.submit(run, work())
    assert backend.submit(run, work()).external_id == first.external_id, "asked again, it is found by its metadata"
    assert JobOrder.objects.get().public_id == first.external_id

    early = [event for chunk in backend.poll(first, 0) for event in chunk.events]
    job = bring_to_launch(first.external_id)
    assert isinstance(job, Job)
    look_until(job, seconds=40)
    events = [event for chunk in backend.poll(first, 0) for event in chunk.events]
    assert events[: len(early)] == early, "what was listed once never moves"
    assert [event["step"] for event in events if event["type"] == "step"] == [1, 2]
    assert {event["step"] for event in events if event["type"] == "checkpoint"} == {1, 2}
    assert (events[-1]["type"], events[-1]["status"]) == ("finished", "succeeded")
    assert backend.cancel(first, grace=1.0)
