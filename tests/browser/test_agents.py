"""Agents, tools and models in a real browser: made by form alone, tried, compared; every page free of faults."""

import json

import pytest

from datasets.models import Dataset, DatasetVersion, Item
from jobs.agents.models import Agent
from tests.factories.agents import AgentFactory, AgentVersionFactory, ModelEndpointFactory, ToolFactory

ROW = {
    "messages": [{"role": "user", "content": "What duty is due on 40 crates of pears?"}],
    "country": "Malta",
    "schedule": {"pears": "3 per crate"},
}


@pytest.fixture
def desk(team):
    """A team with items, a model, two tools and an agent of two versions."""
    dataset = Dataset.objects.create(team=team, name="Questions", slug="questions")
    version = DatasetVersion.objects.create(team=team, dataset=dataset, number=1, item_count=1)
    Item.objects.create(version=version, position=0, key="0", raw=json.dumps(ROW), digest="d")
    model = ModelEndpointFactory(team=team, name="Qwen 3 on the cluster", base_url="https://models.example.com/v1")
    ToolFactory(team=team, name="lookup")
    ToolFactory(
        team=team,
        name="calc",
        description="Multiplies two numbers exactly.",
        parameters={"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
        config={"builtin": "calculator", "operation": "product"},
    )
    agent = AgentFactory(team=team, name="Duty desk")
    AgentVersionFactory(agent=agent, model=model, number=1, note="first words", tools=[])
    AgentVersionFactory(
        agent=agent,
        model=model,
        number=2,
        system_prompt="Answer with a number.\nLook the good up before you answer.",
        limits={"max_steps": 6},
        change="tools",
        note="with the tariff",
    )
    return agent


PAGES = {
    "agents": "agents/",
    "agents-new": "agents/new/",
    "agents-tools": "agents/tools/",
    "agents-tool-new": "agents/tools/new/",
    "agents-models": "agents/models/",
    "agents-model-new": "agents/models/new/",
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("width, theme", [("wide", "light"), ("phone", "dark")])
def test_pages_have_no_faults_and_fit(signed_in_page, member, desk, axe, picture, width, theme):
    page = signed_in_page(member, width=width, theme=theme)
    tool = member.team.slug
    addresses = {**PAGES, "agents-detail": f"agents/{desk.public_id}/"}
    for name, path in addresses.items():
        page.goto(f"/t/{tool}/{path}")
        picture(page, f"{name}-{width}", whole=True)
        assert axe(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    page.goto(f"/t/{tool}/agents/tools/")
    page.get_by_role("link", name="lookup").click()
    picture(page, f"agents-tool-{width}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.django_db(transaction=True)
def test_agent_is_published_with_a_field_put_in_by_its_chip(signed_in_page, member, desk):
    page = signed_in_page(member)
    page.goto(f"/t/{member.team.slug}/agents/{desk.public_id}/")
    prompt = page.get_by_label("Prompt", exact=True).last
    prompt.fill("In ")
    page.get_by_role("button", name="item.country").click()
    assert prompt.input_value() == "In {{ item.country }}"
    page.get_by_label("Use calc").check()
    page.get_by_label("What this version changes").select_option(label="the prompt")
    page.get_by_label("Note").fill("country in the prompt")
    page.get_by_role("button", name="Publish the next version").click()
    page.get_by_text("Version 3 is published.").wait_for()
    latest = Agent.objects.get(pk=desk.pk).versions.get(number=3)
    assert latest.system_prompt == "In {{ item.country }}"
    assert "calc" in [tool["name"] for tool in latest.tools]
    page.get_by_role("heading", name="Version 3 against version 2").wait_for()


@pytest.mark.django_db(transaction=True)
def test_tool_is_made_by_form_and_tried(signed_in_page, member, desk):
    page = signed_in_page(member)
    page.goto(f"/t/{member.team.slug}/agents/tools/new/")
    page.get_by_label("Name", exact=True).fill("look_up_rate")
    page.get_by_label("Description", exact=True).fill("Answers with the rate of a good in the schedule.")
    page.get_by_label("Name of argument 1").fill("good")
    page.get_by_label("Description of argument 1").fill("Name of the good")
    page.get_by_label("Argument 1 is required").check()
    page.get_by_label("Settings").fill('{"item_field": "schedule", "key": "good"}')
    page.get_by_role("button", name="Store the tool").click()
    page.get_by_role("heading", name="look_up_rate").wait_for()
    page.get_by_label("Arguments, as the model writes them").fill('{"good": "pears"}')
    page.get_by_role("button", name="Call look_up_rate").click()
    page.get_by_text("3 per crate", exact=True).wait_for()
