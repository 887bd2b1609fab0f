"""Makes what a job rests on: a frozen dataset, a grader, a model, an agent and a finished baseline."""

import json
from datetime import timedelta

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from datasets.models import Dataset, DatasetVersion, Item
from graders.models import Grader, GraderVersion
from jobs.agents.models import Agent, AgentVersion, ModelEndpoint
from jobs.evaluations.metrics import compute_metrics
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import batch_rows
from jobs.rollouts.models import Rollout, RolloutBatch
from rftstudio.core.ids import new_id
from tests.factories.teams import TeamFactory

EXACT = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
}


class FrozenVersionFactory(DjangoModelFactory):
    """`items` rows in each of train, validation and test, unless told otherwise."""

    class Meta:
        model = DatasetVersion
        skip_postgeneration_save = True

    team = factory.SubFactory(TeamFactory)
    dataset = factory.LazyAttribute(
        lambda o: Dataset.objects.create(team=o.team, name="Questions", slug=new_id("q").lower())
    )
    number = 1
    status = DatasetVersion.Status.FROZEN

    @classmethod
    def _create(cls, model_class, *args, **kwargs):
        counts = {"train": kwargs.pop("n_train", 12), "validation": kwargs.pop("n_validation", 4)}
        counts["test"] = kwargs.pop("n_test", 6)
        version = super()._create(model_class, *args, **kwargs)
        position = 0
        for split, count in counts.items():
            for n in range(count):
                raw = json.dumps({"messages": [{"role": "user", "content": f"{split} {n}"}], "answer": str(n)})
                Item.objects.create(
                    version=version,
                    position=position,
                    key=f"{split}-{n}",
                    title=f"{split} {n}",
                    split=split,
                    raw=raw,
                    digest=f"{split}{n}",
                )
                position += 1
        return version


class GraderVersionFactory(DjangoModelFactory):
    class Meta:
        model = GraderVersion

    team = factory.SubFactory(TeamFactory)
    grader = factory.LazyAttribute(lambda o: Grader.objects.create(team=o.team, name="Exact", slug=new_id("g").lower()))
    number = 1
    config = factory.LazyFunction(lambda: dict(EXACT))
    pass_threshold = 0.5


class ModelEndpointFactory(DjangoModelFactory):
    class Meta:
        model = ModelEndpoint

    team = factory.SubFactory(TeamFactory)
    name = factory.Sequence(lambda n: f"Tiny {n}")
    kind = ModelEndpoint.Kind.LOCAL
    model = "tiny/base"
    is_trainable = True


class AgentVersionFactory(DjangoModelFactory):
    class Meta:
        model = AgentVersion

    team = factory.SubFactory(TeamFactory)
    agent = factory.LazyAttribute(lambda o: Agent.objects.create(team=o.team, name="Clerk", slug=new_id("a").lower()))
    number = 1
    system_prompt = "Answer shortly."
    model = factory.LazyAttribute(lambda o: ModelEndpointFactory(team=o.team))
    limits = factory.LazyFunction(lambda: {"max_steps": 4})


def evaluation_parts(team, **version) -> dict:
    """Dataset, grader and agent versions of one team, as `evaluation_start` takes them."""
    return {
        "dataset_version": FrozenVersionFactory(team=team, **version),
        "agent_version": AgentVersionFactory(team=team),
        "grader_version": GraderVersionFactory(team=team),
    }


def rollouts_end(batch: RolloutBatch, rewards: list[float | None]) -> None:
    """End every open rollout of a batch with these rewards in turn; None is a failed one."""
    for n, rollout in enumerate(batch.rollouts.filter(status="queued").order_by("id")):
        reward = rewards[n % len(rewards)]
        rollout.status = "done" if reward is not None else "failed"
        rollout.stop_reason = "answered" if reward is not None else "tool_failed"
        rollout.error = "" if reward is not None else "lookup answered 502"
        rollout.reward, rollout.passed = reward, reward is not None and reward >= batch.pass_threshold
        rollout.started_at, rollout.milliseconds, rollout.n_steps = timezone.now(), 40.0, 2
        rollout.save()


def ready_baseline_of(actor, *, rewards=(1.0, 0.3, 0.0), samples: int = 3, **version) -> Evaluation:
    """A finished evaluation with something to learn."""
    parts = evaluation_parts(actor.team, **version)
    evaluation = Evaluation(
        team=actor.team,
        number=Evaluation.objects.filter(team=actor.team).count() + 1,
        model=parts["agent_version"].model,
        samples_per_item=samples,
        status="succeeded",
        **parts,
    )
    evaluation.batch = RolloutBatch.objects.create(
        team=actor.team,
        kind="evaluation",
        source=evaluation.public_id,
        agent_version=parts["agent_version"],
        grader_version=parts["grader_version"],
        model=evaluation.model,
    )
    items = Item.objects.filter(version=parts["dataset_version"], split="test")
    Rollout.objects.bulk_create(
        Rollout(
            team=actor.team,
            batch=evaluation.batch,
            item=item,
            group_key=item.key,
            title=item.title,
            sample_index=n,
            trace_id=new_id("trace_"),
        )
        for item in items
        for n in range(samples)
    )
    rollouts_end(evaluation.batch, list(rewards))
    evaluation.metrics = compute_metrics(batch_rows(evaluation.batch), pass_threshold=0.5)
    evaluation.finished_at = timezone.now()
    evaluation.started_at = evaluation.finished_at - timedelta(seconds=2)
    evaluation.save()
    return evaluation
