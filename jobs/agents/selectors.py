"""Reads of agents, tools and models. Only `toolspecs` and `model_key` open secrets, for the services that call out."""

from dataclasses import replace
from typing import Any

from django.db.models import Count, Max, Prefetch, QuerySet

from datasets.models import DatasetVersion, Item
from jobs.agents.models import Agent, AgentVersion, Corpus, ModelEndpoint, Tool
from jobs.agents.tools.spec import ToolSpec
from rftstudio.core.errors import NotFound
from rftstudio.core.sealed import unseal
from rftstudio.teams.models import Team


def agent_list(*, team: Team) -> QuerySet[Agent]:
    """The team's agents by last change, each with `version_count` and its versions, newest first."""
    versions = AgentVersion.objects.select_related("model").order_by("-number")
    return (
        Agent.objects.filter(team=team)
        .annotate(version_count=Count("versions"), changed_at=Max("versions__created_at"))
        .prefetch_related(Prefetch("versions", versions))
        .order_by("-changed_at", "-id")
    )


def agent_get(*, team: Team, public_id: str) -> Agent:
    return _get(Agent.objects.filter(team=team, public_id=public_id))


def agent_version_get(*, team: Team, public_id: str) -> AgentVersion:
    return _get(AgentVersion.objects.select_related("agent", "model").filter(team=team, public_id=public_id))


def agent_version_list(*, agent: Agent) -> QuerySet[AgentVersion]:
    """The agent's versions, newest first."""
    return agent.versions.select_related("model", "created_by").order_by("-number")


def tool_list(*, team: Team) -> QuerySet[Tool]:
    return Tool.objects.filter(team=team).order_by("name")


def tool_get(*, team: Team, public_id: str) -> Tool:
    return _get(Tool.objects.filter(team=team, public_id=public_id))


def model_list(*, team: Team) -> QuerySet[ModelEndpoint]:
    return ModelEndpoint.objects.filter(team=team).order_by("name")


def model_get(*, team: Team, public_id: str) -> ModelEndpoint:
    return _get(ModelEndpoint.objects.filter(team=team, public_id=public_id))


def model_key(model: ModelEndpoint) -> str:
    """The model's API key in the clear, for the policy that sends it."""
    return unseal(model.api_key_sealed) or ""


def model_subject(model: ModelEndpoint) -> str:
    """Under which name the model stands in the price list: a local one has no name but ours."""
    return model.name if model.kind == ModelEndpoint.Kind.LOCAL else model.model


def corpus_list(*, team: Team) -> QuerySet[Corpus]:
    """The team's corpora, newest first, without their documents."""
    return Corpus.objects.filter(team=team).defer("documents").order_by("-id")


def tool_spec(tool: Tool) -> ToolSpec:
    """The tool as it stands now, with its headers in the clear; a corpus by its id alone."""
    return ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        transport=tool.transport,
        config=tool.config,
        headers=unseal(tool.headers_sealed) or {},
        sentence=tool.sentence,
        icon=tool.icon,
        is_replayable=tool.is_replayable,
    )


def tool_ready(tool: Tool) -> ToolSpec:
    """The tool ready to be called, its documents included."""
    return _with_documents([tool_spec(tool)], tool.team_id)[0]


def toolspecs(version: AgentVersion) -> list[ToolSpec]:
    """The version's frozen tools in order, ready to be called, with the headers that are meant for them.

    A secret that was changed at the tool reaches versions published before, so that a revoked one can be replaced; but never
    one that calls another server than the tool does now, nor one that came with headers of its own.
    """
    ids = [frozen.get("tool") for frozen in version.tools]
    tools = {tool.public_id: tool for tool in Tool.objects.filter(team_id=version.team_id, public_id__in=ids)}
    own = unseal(version.headers_sealed) or {}
    specs = []
    for frozen in version.tools:
        spec, tool = ToolSpec.from_dict({**frozen, "headers": {}}), tools.get(frozen.get("tool"))
        now = tool_spec(tool) if tool and not version.keeps_headers else None
        is_same = now is not None and now.server == spec.server
        specs.append(replace(spec, headers=now.headers if is_same else own.get(frozen.get("tool"), {})))
    return _with_documents(specs, version.team_id)


def _with_documents(specs: list[ToolSpec], team_id: int) -> list[ToolSpec]:
    wanted = {spec.config["corpus"] for spec in specs if spec.config.get("corpus")}
    if not wanted:
        return specs
    rows = Corpus.objects.filter(team_id=team_id, public_id__in=wanted)
    found = dict(rows.values_list("public_id", "documents"))
    return [
        replace(spec, config={**spec.config, "documents": found.get(spec.config["corpus"], [])})
        if spec.config.get("corpus")
        else spec
        for spec in specs
    ]


def frozen_specs(version: AgentVersion) -> list[ToolSpec]:
    """The version's tools for pages: without headers."""
    return [ToolSpec.from_dict(frozen) for frozen in version.tools]


def item_fields(*, team: Team) -> list[str]:
    """Paths of item fields that prompts may use, from the newest dataset version that has items."""
    item = _newest_item(team)
    if item is None:
        return []
    return [f"item.{key}" for key in item.data if key not in {"messages", "tools", "parallel_tool_calls", "split"}]


def example_item(*, team: Team, field: str = "") -> dict[str, Any]:
    """An item to try a tool with: of the newest version, and one that has the field where there is one."""
    item = _newest_item(team)
    return item.data if item is not None and (not field or field.partition(".")[0] in item.data) else {}


def _newest_item(team: Team) -> Item | None:
    version = DatasetVersion.objects.filter(team=team, items__isnull=False).order_by("-id").first()
    return version.items.order_by("position").first() if version else None


def agents_using(*, tool: Tool) -> list[Agent]:
    """Agents whose newest version has the tool."""
    agents = agent_list(team=tool.team)
    return [
        agent
        for agent in agents
        if any(frozen.get("tool") == tool.public_id for version in agent.versions.all()[:1] for frozen in version.tools)
    ]


def _get(rows: QuerySet):
    found = rows.first()
    if found is None:
        raise NotFound("There is nothing at this address.")
    return found
