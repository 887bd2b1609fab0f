"""What running a batch needs: items, an agent whose model is a fake server, and a grader that is a function."""

import json

import pytest

from datasets.hashing import question_hash
from datasets.models import Dataset, DatasetVersion, Item
from graders.models import Grader, GraderVersion
from graders.services import grader_create, grader_version_publish
from graders.types import Grade, Sample
from jobs.rollouts.models import RolloutBatch, Step
from jobs.rollouts.services import batch_create
from tests.factories.agents import AgentFactory, AgentVersionFactory, ModelEndpointFactory
from tests.factories.studio import ready_baseline_of
from tests.fakes.server import ModelServer


class FakeGrader:
    """1 when the answer is the item's, 0 otherwise; `answers` overrules it by item key."""

    def __init__(self) -> None:
        self.answers: dict = {}
        self.graded: list[str] = []
        self.closed = 0

    def grade(self, item: dict, sample: Sample, trace_id: str = "") -> Grade:
        self.graded.append(trace_id)
        said = self.answers.get(item["answer"])
        if isinstance(said, Exception):
            raise said
        right = float(sample.output_text == item["answer"])
        return said or Grade(right, sub_rewards={"exact": right}, usage={})

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def grader(monkeypatch) -> FakeGrader:
    fake = FakeGrader()
    monkeypatch.setattr("jobs.rollouts.running.grader_compiled", lambda version: fake)
    return fake


@pytest.fixture
def items(team) -> list[Item]:
    dataset = Dataset.objects.create(team=team, name="Questions", slug="questions")
    version = DatasetVersion.objects.create(team=team, dataset=dataset, number=1)
    for n in range(4):
        row = {
            "messages": [{"role": "user", "content": f"rate of g{n}?"}],
            "schedule": {f"g{n}": str(n)},
            "answer": str(n),
        }
        Item.objects.create(
            version=version,
            position=n,
            key=f"item-{n}",
            title=f"g{n}?",
            raw=json.dumps(row),
            digest="d",
            question_hash=question_hash(row),
        )
    return list(Item.objects.order_by("position"))


def looks_up(messages: list, tools: list) -> dict:
    """A model that looks the good up and answers with what it found."""
    if messages[-1]["role"] == "tool":
        return {"content": messages[-1]["content"]}
    good = messages[-1]["content"].split()[-1].rstrip("?")
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": json.dumps({"good": good})}}
    return {"tool_calls": [call]}


@pytest.fixture
def model_server(settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    with ModelServer(looks_up) as server:
        yield server


@pytest.fixture
def agent_version(team, model_server):
    model = ModelEndpointFactory(team=team, base_url=model_server.url + "/v1")
    return AgentVersionFactory(agent=AgentFactory(team=team), model=model, limits={"max_steps": 4})


@pytest.fixture
def grader_version(team) -> GraderVersion:
    made = Grader.objects.create(team=team, name="Exact", slug="exact")
    return GraderVersion.objects.create(team=team, grader=made, number=1, config={"type": "string_check"})


@pytest.fixture
def batch_of(member, items, agent_version, grader_version):
    def make(**options) -> RolloutBatch:
        given = {
            "kind": RolloutBatch.Kind.EVALUATION,
            "source": "evalrun_1",
            "items": items,
            "samples_per_item": 2,
            "agent_version": agent_version,
            "grader_version": grader_version,
            "model": agent_version.model,
            **options,
        }
        return batch_create(actor=member, **given)

    return make


LIKE = {"type": "string_check", "operation": "like", "input": "{{sample.output_text}}", "reference": "{{item.answer}}"}


def published(actor, config, name="Softer", **options):
    return grader_version_publish(actor=actor, grader=grader_create(actor=actor, name=name, config=config), **options)


@pytest.fixture
def evaluation(member):
    """Six items × three rollouts with rewards 1, 0.3, 0; every third answer holds the reference inside a sentence."""
    made = ready_baseline_of(member)
    for n, rollout in enumerate(made.batch.rollouts.order_by("id")):
        reference = rollout.item.data["answer"]
        rollout.answer = [reference, f"It is {reference}.", "nothing"][n % 3]
        rollout.save()
        Step.objects.create(rollout=rollout, index=0, text=rollout.answer, output_tokens=5)
    return made


@pytest.fixture
def softer(member):
    return published(member, LIKE, pass_threshold=0.75)
