"""The ladder sets alike beside alike: a version's own score, training above it, other measures left out."""

import pytest

from jobs.agents.ladder import ladder
from jobs.evaluations.models import Evaluation
from tests.factories.studio import AgentVersionFactory, ModelEndpointFactory, ready_baseline_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def climb(member):
    """Version 1 at 0.3, version 2 at 0.55, its checkpoint at 0.9, and another grader's 0.1 in between."""
    baseline = ready_baseline_of(member)
    second = baseline.agent_version
    type(second).objects.filter(pk=second.pk).update(number=2)
    second.refresh_from_db()
    first = AgentVersionFactory(team=member.team, agent=second.agent, number=1, model=second.model)
    other = ready_baseline_of(member)
    trained = ModelEndpointFactory(team=member.team)
    numbers = iter(range(10, 99))

    def measured(version, mean, **changes) -> Evaluation:
        batch = type(baseline.batch).objects.create(team=member.team, kind="evaluation", source=f"evalrun_{mean}")
        metrics = {
            "mean_reward": mean,
            "mean_reward_low": mean - 0.1,
            "mean_reward_high": mean + 0.1,
            "pass_rate": mean,
        }
        fields = {name: getattr(baseline, name) for name in ("team", "dataset_version", "grader_version", "model")}
        fields |= {"agent_version": version, "status": "succeeded", "metrics": metrics, "batch": batch}
        return Evaluation.objects.create(number=next(numbers), **fields | changes)

    measured(first, 0.3)
    measured(second, 0.55)
    measured(second, 0.1, grader_version=other.grader_version)
    measured(second, 0.9, model=trained, policy_label="checkpoint, train step 35")
    return [second, first]


def test_ladder_shows_each_version_and_training_above_it(climb):
    found = ladder(climb)
    shown = [(rung.version.number, rung.is_trained, rung.label, rung.mean_reward) for rung in found.rungs]
    assert shown == [(2, True, "checkpoint, train step 35", 0.9), (2, False, "", 0.55), (1, False, "", 0.3)]
    assert [None if rung.step is None else round(rung.step, 2) for rung in found.rungs] == [0.35, 0.25, None]
    assert found.measure == "Questions, test items, graded by Exact"


def test_ladder_before_any_evaluation_shows_versions_without_figures(team):
    version = AgentVersionFactory(team=team)
    found = ladder([version])
    assert [(rung.version, rung.mean_reward, rung.step) for rung in found.rungs] == [(version, None, None)]
    assert found.measure == ""


def test_ladder_on_the_page_names_the_measure(climb, client_of, viewer):
    page = client_of(viewer).get(f"/t/{viewer.team.slug}/agents/{climb[0].agent.public_id}/").content.decode()
    assert "On Questions, test items, graded by Exact." in page
    assert "checkpoint, train step 35" in page
