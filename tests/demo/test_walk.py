"""The example's agent: two prompts, published once, whichever walk comes first."""

import pytest

from jobs.agents.models import AgentVersion
from rftstudio.demo import walk, world

pytestmark = pytest.mark.django_db


def test_agent_ready_publishes_both_prompts_once_and_returns_the_better_one(owner):
    model = walk.model_ready(owner)
    made = walk.agent_ready(owner, model)
    assert walk.agent_ready(owner, model) == made
    versions = AgentVersion.objects.order_by("number")
    assert [version.system_prompt for version in versions] == list(world.PROMPTS)
    assert made == versions.last()
    assert walk.first_version(made) == versions.first()
    assert versions.first().tools == versions.last().tools


def test_agent_ready_leaves_an_earlier_walk_as_it_is(owner):
    model = walk.model_ready(owner)
    made = walk.agent_ready(owner, model)
    AgentVersion.objects.exclude(pk=made.pk).delete()
    assert walk.agent_ready(owner, model) == made
    assert walk.first_version(made) == made
