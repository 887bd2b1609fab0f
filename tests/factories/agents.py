"""Makes models, tools and agent versions."""

import factory
from factory.django import DjangoModelFactory

from jobs.agents.models import Agent, AgentVersion, ModelEndpoint, Tool
from tests.factories.teams import TeamFactory

LOOKUP = {
    "name": "lookup",
    "description": "Answers with the rate of a good in this question's schedule.",
    "parameters": {
        "type": "object",
        "properties": {"good": {"type": "string", "description": "The good's name."}},
        "required": ["good"],
    },
    "transport": "builtin",
    "config": {"builtin": "table", "item_field": "schedule", "key": "good"},
}


class ModelEndpointFactory(DjangoModelFactory):
    class Meta:
        model = ModelEndpoint

    team = factory.SubFactory(TeamFactory)
    name = factory.Sequence(lambda n: f"Model {n}")
    kind = ModelEndpoint.Kind.OPENAI
    base_url = "http://127.0.0.1:9/v1"
    model = "fake-model"


class ToolFactory(DjangoModelFactory):
    class Meta:
        model = Tool

    team = factory.SubFactory(TeamFactory)
    name = factory.Sequence(lambda n: f"lookup_{n}")
    description = LOOKUP["description"]
    parameters = LOOKUP["parameters"]
    transport = Tool.Transport.BUILTIN
    config = LOOKUP["config"]


class AgentFactory(DjangoModelFactory):
    class Meta:
        model = Agent

    team = factory.SubFactory(TeamFactory)
    name = factory.Sequence(lambda n: f"Agent {n}")
    slug = factory.Sequence(lambda n: f"agent-{n}")


class AgentVersionFactory(DjangoModelFactory):
    class Meta:
        model = AgentVersion

    agent = factory.SubFactory(AgentFactory)
    team = factory.SelfAttribute("agent.team")
    number = factory.Sequence(lambda n: n + 1)
    system_prompt = "Answer with a number."
    model = factory.SubFactory(ModelEndpointFactory, team=factory.SelfAttribute("..agent.team"))
    tools = factory.LazyFunction(lambda: [dict(LOOKUP)])
