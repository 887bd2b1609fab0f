"""Pages of agents, tools and models: seen, edited, refused, and closed to strangers."""

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.agents.models import Agent, AgentVersion, ModelEndpoint, Tool
from jobs.agents.selectors import tool_spec
from jobs.agents.services import tool_create
from rftstudio.core.sealed import unseal
from tests.factories.agents import AgentFactory, AgentVersionFactory, ModelEndpointFactory, ToolFactory

PAGES = ["agent-list", "agent-new", "tool-list", "tool-new", "model-list", "model-new"]


@pytest.fixture(autouse=True)
def _fresh_minute():
    cache.clear()


def url(team, name, *args):
    return reverse(f"agents:{name}", args=[team.slug, *args])


@pytest.fixture
def version(team):
    model = ModelEndpointFactory(team=team)
    return AgentVersionFactory(agent=AgentFactory(team=team, name="VAT desk"), model=model, number=1)


@pytest.mark.parametrize("name", PAGES)
def test_page_opens_for_a_member(member, client_of, name):
    assert client_of(member).get(url(member.team, name)).status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_stranger_sees_nothing(member, stranger, client_of, name):
    assert client_of(stranger).get(url(member.team, name)).status_code == 404


@pytest.mark.parametrize("name", ["agent-new", "tool-new", "model-new"])
def test_viewer_may_not_make_things(viewer, client_of, name):
    assert client_of(viewer).get(url(viewer.team, name)).status_code == 403


def test_details_of_another_team_are_not_found(member, client_of):
    client = client_of(member)
    for name, row in (("agent-detail", AgentFactory()), ("tool-detail", ToolFactory())):
        assert client.get(url(member.team, name, row.public_id)).status_code == 404
    assert client.post(url(member.team, "tool-test", ToolFactory().public_id)).status_code == 404
    assert client.post(url(member.team, "model-key-set", ModelEndpointFactory().public_id)).status_code == 404


def test_agent_is_made_and_published_through_the_pages(member, client_of, version):
    client = client_of(member)
    made = client.post(url(member.team, "agent-new"), {"name": "Desk"})
    agent = Agent.objects.get(name="Desk")
    assert made.url == url(member.team, "agent-detail", agent.public_id)
    tools = [ToolFactory(team=member.team, name=name) for name in ("alpha", "beta")]
    page = client.post(
        url(member.team, "agent-publish", agent.public_id),
        {
            "system_prompt": "Use {{ item.country }}.",
            "model": version.model_id,
            "tool": ["alpha", "beta"],
            "place-alpha": "2",
            "place-beta": "1",
            "temperature": "0.5",
            "max_steps": "4",
            "change": "tools",
            "note": "two tools",
        },
    )
    assert page.status_code == 302
    first = agent.versions.get()
    assert [tool["name"] for tool in first.tools] == ["beta", "alpha"]
    assert (first.sampling, first.limits, first.change) == ({"temperature": 0.5}, {"max_steps": 4}, "tools")
    shown = client.get(page.url).content.decode()
    assert "two tools" in shown
    assert shown.index("beta") < shown.index("alpha")
    assert tools


def test_publishing_keeps_settings_the_form_does_not_show(member, client_of, version):
    AgentVersion.objects.filter(pk=version.pk).update(sampling={"seed": 3, "top_p": 0.9}, limits={"tool_seconds": 9})
    client_of(member).post(
        url(member.team, "agent-publish", version.agent.public_id),
        {"system_prompt": "b", "model": version.model_id, "change": "prompt"},
    )
    latest = version.agent.versions.get(number=2)
    assert (latest.sampling, latest.limits) == ({"seed": 3}, {"tool_seconds": 9})


def test_publishing_bad_values_shows_them_again(member, client_of, version):
    page = client_of(member).post(
        url(member.team, "agent-publish", version.agent.public_id),
        {"model": version.model_id, "change": "prompt", "response_format": "{oops", "temperature": "9"},
    )
    assert page.status_code == 422
    assert "Line 1, column 2" in page.content.decode()
    assert version.agent.versions.count() == 1


def test_viewer_sees_an_agent_but_cannot_publish(viewer, client_of, version):
    client = client_of(viewer)
    page = client.get(url(viewer.team, "agent-detail", version.agent.public_id)).content.decode()
    assert "Answer with a number." in page
    assert "version-form" not in page
    assert client.post(url(viewer.team, "agent-publish", version.agent.public_id)).status_code == 403


def test_versions_are_compared_line_by_line(member, client_of, version):
    second = AgentVersionFactory(
        agent=version.agent, model=version.model, number=2, system_prompt="Answer with a word.", tools=[],
        limits={"max_steps": 3}, change="tool_quality",
    )  # fmt: skip
    page = client_of(member).get(url(member.team, "agent-detail", second.agent.public_id)).content.decode()
    assert "Version 2 against version 1" in page
    assert "− Answer with a number." in page
    assert "+ Answer with a word." in page
    assert "Tool removed" in page
    assert "Limit: max steps" in page
    old = (
        client_of(member).get(url(member.team, "agent-detail", second.agent.public_id) + "?version=1").content.decode()
    )
    assert "This is version 1." in old


def tool_data(**changes):
    return {
        "name": "search",
        "description": "Finds documents by their words.",
        "transport": "http",
        "server_url": "https://tools.example.com/s?securityToken=CANARY-query&x=1",
        "headers": "Authorization: Bearer CANARY-header",
        "arg-0-name": "q",
        "arg-0-type": "string",
        "arg-0-description": "Words",
        "arg-0-required": "on",
        "arg-1-name": "",
        "arg-1-type": "string",
        **changes,
    }


def test_tool_is_made_by_form_and_its_secrets_are_never_shown(member, client_of):
    client = client_of(member)
    made = client.post(url(member.team, "tool-new"), tool_data())
    tool = Tool.objects.get()
    assert made.url == url(member.team, "tool-detail", tool.public_id)
    assert tool.parameters == {
        "type": "object",
        "properties": {"q": {"type": "string", "description": "Words"}},
        "required": ["q"],
    }
    assert unseal(tool.headers_sealed) == {"Authorization": "Bearer CANARY-header"}
    for page in (made.url, url(member.team, "tool-list")):
        shown = client.get(page).content.decode()
        assert "CANARY" not in shown
        assert "securityToken=…" in shown


def test_tool_stored_again_untouched_keeps_address_headers_and_nested_schema(member, client_of):
    nested = {
        "type": "object",
        "properties": {"where": {"type": "object", "properties": {"city": {"type": "string"}}, "description": "Place"}},
        "additionalProperties": False,
    }
    address = "https://tools.example.com/s?key=CANARY"
    tool = tool_create(
        actor=member, name="search", description="Finds documents by words.", parameters=nested, transport="http",
        config={"server_url": address}, headers={"X-Key": "CANARY"},
    )  # fmt: skip
    data = tool_data(
        server_url="https://tools.example.com/s?key=…", headers="", **{
            "arg-0-name": "where", "arg-0-type": "object", "arg-0-description": "Place", "arg-0-required": "",
        },
    )  # fmt: skip
    page = client_of(member).post(url(member.team, "tool-detail", tool.public_id), data)
    assert page.status_code == 302
    tool.refresh_from_db()
    assert tool.parameters == nested
    assert tool_spec(tool).headers == {"X-Key": "CANARY"}
    assert tool.config == {"server_url": address}


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"server_url": "http://169.254.169.254/"}, "inside this network"),
        ({"name": "has space"}, "letters, digits"),
        ({"headers": "no colon"}, "Line 1: write Name: value."),
        ({"edit_as": "json", "parameters_json": "{oops"}, "Line 1, column 2"),
        ({"arg-1-name": "q"}, "Two arguments are named q"),
    ],
)
def test_tool_that_cannot_work_says_where(member, client_of, changes, words):
    page = client_of(member).post(url(member.team, "tool-new"), tool_data(**changes))
    assert page.status_code == 422
    assert words in page.content.decode()
    assert not Tool.objects.exists()


def test_tool_is_tried_from_its_page(member, client_of):
    tool = ToolFactory(team=member.team, name="lookup")
    client = client_of(member)
    post = {"arguments": '{"good": "tea"}', "item": '{"schedule": {"tea": "4 <b>"}}'}
    fragment = client.post(url(member.team, "tool-test", tool.public_id), post, HTTP_HX_REQUEST="true").content.decode()
    assert "4 &lt;b&gt;" in fragment
    assert "<html" not in fragment
    assert "answered" in client.post(url(member.team, "tool-test", tool.public_id), post).content.decode()
    bad = client.post(url(member.team, "tool-test", tool.public_id), {**post, "item": "{"}, HTTP_HX_REQUEST="true")
    assert "not JSON" in bad.content.decode()


def test_trying_a_tool_inside_the_network_is_refused(member, client_of):
    tool = ToolFactory(team=member.team, transport="http", config={"server_url": "http://127.0.0.1:1/"}, parameters={})
    page = client_of(member).post(
        url(member.team, "tool-test", tool.public_id), {"arguments": "{}"}, HTTP_HX_REQUEST="true"
    )
    assert "inside this network" in page.content.decode()


def test_trying_tools_is_bounded(member, client_of):
    tool = ToolFactory(team=member.team)
    client = client_of(member)
    pages = [
        client.post(url(member.team, "tool-test", tool.public_id), {"arguments": "{}"}, HTTP_HX_REQUEST="true")
        for _ in range(31)
    ]
    assert "many test calls" in pages[-1].content.decode()


def test_viewer_may_not_try_a_tool(viewer, client_of):
    tool = ToolFactory(team=viewer.team)
    assert client_of(viewer).post(url(viewer.team, "tool-test", tool.public_id), {"arguments": "{}"}).status_code == 403


def test_model_is_made_and_its_key_never_shown(member, client_of):
    client = client_of(member)
    data = {
        "name": "m",
        "kind": "openai",
        "model": "gpt",
        "base_url": "https://api.example.com/v1",
        "api_key": "sk-CANARY",
    }
    page = client.post(url(member.team, "model-new"), data, follow=True)
    assert "CANARY" not in page.content.decode()
    model = ModelEndpoint.objects.get()
    client.post(url(member.team, "model-key-set", model.public_id), {"api_key": "sk-new"})
    model.refresh_from_db()
    assert unseal(model.api_key_sealed) == "sk-new"


def test_agent_list_asks_as_many_queries_for_twenty_as_for_ten(member, client_of):
    client, model = client_of(member), ModelEndpointFactory(team=member.team)
    counts = []
    for _ in range(2):
        for _ in range(10):
            AgentVersionFactory(agent=AgentFactory(team=member.team), model=model)
        with CaptureQueriesContext(connection) as caught:
            client.get(url(member.team, "agent-list"))
        counts.append(len(caught))
    assert counts[0] == counts[1]
