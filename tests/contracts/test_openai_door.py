"""Our `/v1` over HTTP: the unmodified SDK, synchronous and asynchronous, and the first programs of the migration page."""

import asyncio
import json

import openai
import pytest

from rftstudio.orders.models import ModelAlias
from rftstudio.teams.services import api_key_create
from tests.api.conftest import EXACT, bring_to_launch, jsonl, rows_of, trainer  # noqa: F401
from tests.contracts import programs
from tests.jobs.conftest import look_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def secret(owner):
    ModelAlias.objects.create(name="o4-mini", target="tiny/base", baseline_items=4, baseline_samples=3)
    return api_key_create(actor=owner, name="script")[1]


async def order(url: str, secret: str) -> str:
    """Files and job, asked at the same time."""
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=secret, max_retries=0) as client:
        files = await asyncio.gather(
            client.files.create(file=("train.jsonl", jsonl(rows_of(12))), purpose="fine-tune"),
            client.files.create(file=("valid.jsonl", jsonl(rows_of(10, "v"))), purpose="fine-tune"),
        )
        plan = {"n_epochs": 1, "batch_size": 6, "eval_interval": 1, "eval_samples": 1}
        method = {"type": "reinforcement", "reinforcement": {"grader": EXACT, "hyperparameters": plan}}
        job = await client.fine_tuning.jobs.create(
            model="o4-mini", training_file=files[0].id, validation_file=files[1].id, method=method
        )
        return job.id


async def read(url: str, secret: str, job: str) -> tuple[str, list[str], list[int]]:
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=secret, max_retries=0) as client:
        found = await client.fine_tuning.jobs.retrieve(job)
        events = [event.message async for event in client.fine_tuning.jobs.list_events(job, limit=2)]
        steps = [one.step_number async for one in client.fine_tuning.jobs.checkpoints.list(job, limit=1)]
        return found.status, events, steps


def test_job_over_http_with_the_asynchronous_client(live_server, secret, trainer):  # noqa: F811
    job_id = asyncio.run(order(live_server.url, secret))
    look_until(bring_to_launch(job_id), seconds=40)
    status, events, steps = asyncio.run(read(live_server.url, secret, job_id))
    assert (status, steps) == ("succeeded", [2, 1])
    assert events[-1] == f"Created fine-tuning job: {job_id}"
    with openai.OpenAI(base_url=live_server.url + "/v1", api_key=secret) as client:
        assert client.fine_tuning.jobs.retrieve(job_id).status == "succeeded"
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="rfts-wrong").models.list()


def test_first_programs_of_the_migration_page_run_as_they_stand(live_server, secret, tmp_path, monkeypatch, capsys):
    (tmp_path / "train.jsonl").write_bytes(jsonl(rows_of(12, reference_answer="1")))
    (tmp_path / "valid.jsonl").write_bytes(jsonl(rows_of(10, "v", reference_answer="1")))
    (tmp_path / "grader.json").write_text(json.dumps({**EXACT, "reference": "{{item.reference_answer}}"}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STUDIO_URL", live_server.url)
    monkeypatch.setenv("STUDIO_KEY", secret)
    space = programs.run(["setup", "files", "grader"])
    assert space["result"].reward == 1.0
    assert "o4-mini" in capsys.readouterr().out
