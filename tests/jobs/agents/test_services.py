"""Writes of models, tools, agents and versions; every refusal."""

import pytest

from jobs.agents import selectors
from jobs.agents.models import AgentVersion, ModelEndpoint, Tool
from jobs.agents.services import (
    agent_create,
    agent_version_publish,
    model_endpoint_create,
    model_endpoint_key_set,
    tool_create,
    tool_update,
)
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.models import AuditEvent
from tests.factories.agents import LOOKUP, AgentFactory, ModelEndpointFactory, ToolFactory

HTTP = {
    "name": "search",
    "description": "Finds documents that mention the words.",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    "transport": "http",
    "config": {"server_url": "https://tools.example.com/search"},
}


def model_of(actor, **options):
    given = {"name": "m", "kind": "openai", "model": "gpt", "base_url": "https://api.example.com/v1", **options}
    return model_endpoint_create(actor=actor, **given)


def test_model_key_is_sealed(member):
    model = model_of(member, api_key="sk-CANARY")
    assert "CANARY" not in str(ModelEndpoint.objects.values().get())
    assert selectors.model_key(model) == "sk-CANARY"
    assert "CANARY" not in str(list(AuditEvent.objects.values()))
    model_endpoint_key_set(actor=member, model=model, api_key="sk-other")
    assert selectors.model_key(model) == "sk-other"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "ftp://x/", "", "http://169.254.169.254/"])
def test_model_at_an_inside_address_is_refused(member, url):
    with pytest.raises(UserError) as refused:
        model_of(member, base_url=url)
    assert refused.value.where == "base_url"


def test_model_of_this_machine_needs_no_address(member):
    model = model_of(member, kind="local", base_url="", model="/models/tiny", is_trainable=True, digest="d")
    assert model.is_trainable


def test_model_name_is_taken_once(member):
    model_of(member)
    with pytest.raises(Conflict):
        model_of(member)


@pytest.mark.parametrize(
    "make", [model_of, lambda actor: tool_create(actor=actor, **LOOKUP), lambda a: agent_create(actor=a, name="x")]
)
def test_viewer_may_write_nothing(viewer, make):
    with pytest.raises(NotAllowed):
        make(viewer)


def test_tool_headers_are_sealed_and_kept_unless_given(member):
    tool = tool_create(actor=member, **HTTP, headers={"Authorization": "Bearer CANARY"})
    assert "CANARY" not in str(Tool.objects.values().get())
    tool_update(actor=member, tool=tool, description="Finds documents by their words.")
    assert selectors.tool_spec(tool).headers == {"Authorization": "Bearer CANARY"}
    tool_update(actor=member, tool=tool, headers={})
    assert selectors.tool_spec(tool).headers == {}
    assert "CANARY" not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize(
    "changes, where",
    [
        ({"name": "has space"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"transport": "carrier pigeon"}, "transport"),
        ({"config": {}}, "server_url"),
        ({"config": {"server_url": "#TOOLS_SERVER_URL#"}}, "server_url"),
        ({"config": {"server_url": "http://10.0.0.5/"}}, "server_url"),
        ({"parameters": {"type": "array"}}, "parameters"),
        ({"parameters": {"type": "object", "properties": {"a": {"type": "int"}}}}, "parameters"),
        ({"parameters": {"type": "object", "required": ["a"]}}, "parameters"),
        ({"headers": {"X": "a\r\nHost: b"}}, "headers"),
        ({"transport": "builtin", "config": {"builtin": "oracle"}}, "config"),
        ({"transport": "builtin", "config": {"builtin": "table"}}, "config"),
        ({"transport": "builtin", "config": {"builtin": "calculator", "operation": "guess"}}, "config"),
        ({"transport": "mcp", "config": {}}, "config"),
    ],
)
def test_tool_that_cannot_work_is_refused_at_its_field(member, changes, where):
    with pytest.raises(UserError) as refused:
        tool_create(actor=member, **{**HTTP, **changes})
    assert refused.value.where == where
    assert not Tool.objects.exists()


def test_tool_update_of_a_foreign_tool_is_not_found(member):
    with pytest.raises(NotFound):
        tool_update(actor=member, tool=ToolFactory(), description="x")


def test_agent_name_is_taken_once(member):
    agent_create(actor=member, name="Duty desk")
    with pytest.raises(Conflict):
        agent_create(actor=member, name="Duty  desk")


def test_published_versions_are_numbered_and_frozen(member):
    agent = agent_create(actor=member, name="Desk")
    tool = tool_create(actor=member, **HTTP, headers={"X-Key": "CANARY"})
    model = ModelEndpointFactory(team=member.team)
    first = agent_version_publish(actor=member, agent=agent, system_prompt="a", model=model, tools=[tool])
    tool_update(actor=member, tool=tool, description="Another description of it.", headers={"X-Key": "CANARY-2"})
    second = agent_version_publish(
        actor=member, agent=agent, system_prompt="a", model=model, tools=[tool], change="tool_quality",
        limits={"max_steps": 5, "max_seconds": None}, sampling={"temperature": 0.5},
    )  # fmt: skip
    assert (first.number, second.number) == (1, 2)
    assert [spec.description for spec in selectors.toolspecs(first)] == [HTTP["description"]]
    assert [spec.description for spec in selectors.toolspecs(second)] == ["Another description of it."]
    assert second.limits == {"max_steps": 5}
    assert "CANARY" not in str(list(AgentVersion.objects.values()))
    assert selectors.toolspecs(first)[0].headers == {"X-Key": "CANARY-2"}


def test_headers_go_only_to_the_server_they_were_entered_for(member):
    agent, model = agent_create(actor=member, name="Desk"), ModelEndpointFactory(team=member.team)
    tool = tool_create(actor=member, **HTTP, headers={"X-Key": "of the first server"})
    old = agent_version_publish(actor=member, agent=agent, system_prompt="a", model=model, tools=[tool])
    moved = {"server_url": "https://elsewhere.example.com/look"}
    tool = tool_update(actor=member, tool=tool, config=moved, headers={"X-Key": "of the second"})
    new = agent_version_publish(actor=member, agent=agent, system_prompt="a", model=model, tools=[tool])
    assert selectors.toolspecs(old)[0].headers == {"X-Key": "of the first server"}
    assert selectors.toolspecs(new)[0].headers == {"X-Key": "of the second"}


def test_version_that_came_with_headers_keeps_them(member):
    agent, model = agent_create(actor=member, name="Desk"), ModelEndpointFactory(team=member.team)
    tool = tool_create(actor=member, **HTTP, headers={"X-Key": "the page's"})
    version = agent_version_publish(
        actor=member, agent=agent, system_prompt="", model=model, tools=[tool], headers={tool.name: {"X-Key": "CANARY"}}
    )
    tool_update(actor=member, tool=tool, headers={"X-Key": "rotated"})
    assert selectors.toolspecs(version)[0].headers == {"X-Key": "CANARY"}
    assert "CANARY" not in str(list(AgentVersion.objects.values()))


def test_publish_keeps_the_order_of_tools(member):
    agent, model = AgentFactory(team=member.team), ModelEndpointFactory(team=member.team)
    tools = [ToolFactory(team=member.team, name=name) for name in ("zeta", "alpha", "mid")]
    version = agent_version_publish(actor=member, agent=agent, system_prompt="", model=model, tools=tools)
    assert [spec.name for spec in selectors.toolspecs(version)] == ["zeta", "alpha", "mid"]


@pytest.mark.parametrize(
    "limits, where",
    [
        ({"max_steps": 0}, "max_steps"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"tool_retries": 9}, "tool_retries"),
        ({"speed": 1}, "limits"),
    ],
)
def test_publish_with_impossible_limits_is_refused(member, limits, where):
    agent, model = AgentFactory(team=member.team), ModelEndpointFactory(team=member.team)
    with pytest.raises(UserError) as refused:
        agent_version_publish(actor=member, agent=agent, system_prompt="", model=model, tools=[], limits=limits)
    assert refused.value.where == where


def test_publish_with_foreign_parts_is_not_found(member):
    agent, model = AgentFactory(team=member.team), ModelEndpointFactory(team=member.team)
    for options in ({"model": ModelEndpointFactory()}, {"tools": [ToolFactory()]}, {"agent": AgentFactory()}):
        with pytest.raises(NotFound):
            agent_version_publish(
                **{"actor": member, "agent": agent, "system_prompt": "", "model": model, "tools": [], **options}
            )


def test_selectors_show_a_stranger_nothing(stranger):
    agent = AgentFactory()
    with pytest.raises(NotFound):
        selectors.agent_get(team=stranger.team, public_id=agent.public_id)
    assert not selectors.agent_list(team=stranger.team).exists()


def test_publish_with_an_unreadable_template_is_refused(member):
    agent, model = AgentFactory(team=member.team), ModelEndpointFactory(team=member.team)
    with pytest.raises(UserError, match="two words") as refused:
        agent_version_publish(actor=member, agent=agent, system_prompt="{{ item.two words }}", model=model, tools=[])
    assert refused.value.where == "system_prompt"
