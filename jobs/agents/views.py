"""Pages of agents, tools and models."""

import json
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from jobs.agents import selectors, services
from jobs.agents.diff import version_changes
from jobs.agents.forms import AgentForm, ModelForm, ToolForm, VersionForm
from jobs.agents.ladder import ladder
from jobs.agents.models import Agent, AgentVersion, Tool
from jobs.agents.schema_form import TYPES, example_arguments
from jobs.agents.tools.builtins.catalog import BUILTINS
from jobs.agents.tools.builtins.paths import at_path
from jobs.agents.tools.http import shown_url
from jobs.agents.trials import tool_try
from jobs.agents.validation import tool_advice, toolset_advice
from rftstudio.core.errors import StudioError
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view


@team_view
@require_GET
def agent_list(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.VIEW, team=request.actor.team)
    agents = list(selectors.agent_list(team=request.actor.team))
    for agent in agents:
        agent.latest = next(iter(agent.versions.all()), None)
    context = {
        "agents": agents,
        "has_models": selectors.model_list(team=request.actor.team).exists(),
        "can_edit": can(request.actor, Permission.AGENT_EDIT),
    }
    return render(request, "agents/agent_list.html", context)


@team_view
@require_http_methods(["GET", "POST"])
def agent_new(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.AGENT_EDIT, team=request.actor.team)
    form = AgentForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            agent = services.agent_create(actor=request.actor, **form.cleaned_data)
            return redirect_to(request, _agent_url(request, agent))
    context = {"form": form, "has_models": selectors.model_list(team=request.actor.team).exists()}
    return render(request, "agents/agent_new.html", context, status=422 if form.errors else 200)


@team_view
@require_GET
def agent_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    agent = selectors.agent_get(team=request.actor.team, public_id=public_id)
    return render(request, "agents/agent_detail.html", _agent_context(request, agent))


@team_view
@require_POST
def agent_publish(request: TeamRequest, public_id: str) -> HttpResponse:
    agent = selectors.agent_get(team=request.actor.team, public_id=public_id)
    check_can(request.actor, Permission.AGENT_EDIT, team=agent.team)
    latest = selectors.agent_version_list(agent=agent).first()
    form = VersionForm(request.POST, team=request.actor.team, latest=latest)
    if form.is_valid():
        with errors_on(form):
            version = services.agent_version_publish(actor=request.actor, agent=agent, **form.version_fields())
            messages.success(request, f"Version {version.number} is published.")
            return redirect_to(request, _agent_url(request, agent))
    return render(request, "agents/agent_detail.html", _agent_context(request, agent, form), status=422)


def _agent_url(request: TeamRequest, agent: Agent) -> str:
    return reverse("agents:agent-detail", args=[request.actor.team.slug, agent.public_id])


def _agent_context(request: TeamRequest, agent: Agent, form: VersionForm | None = None) -> dict[str, Any]:
    versions = list(selectors.agent_version_list(agent=agent))
    latest = versions[0] if versions else None
    seen = _version_at(versions, request.GET.get("version")) or latest
    against = _version_at(versions, request.GET.get("against")) or _before(versions, seen)
    can_edit = can(request.actor, Permission.AGENT_EDIT)
    return {
        "agent": agent,
        "latest": latest,
        "seen": seen,
        "against": against,
        "is_old": seen is not None and seen != latest,
        "changes": version_changes(against, seen) if seen and against and seen != against else [],
        "ladder": ladder(versions),
        "advice": toolset_advice(selectors.frozen_specs(seen)) if seen else [],
        "seen_tools": selectors.frozen_specs(seen) if seen else [],
        "prompt_fields": selectors.item_fields(team=request.actor.team),
        "form": form or VersionForm(team=request.actor.team, latest=latest),
        "can_edit": can_edit,
        "has_models": selectors.model_list(team=request.actor.team).exists(),
    }


def _version_at(versions: list[AgentVersion], number: str | None) -> AgentVersion | None:
    return next((version for version in versions if str(version.number) == number), None)


def _before(versions: list[AgentVersion], seen: AgentVersion | None) -> AgentVersion | None:
    return next((version for version in versions if seen and version.number < seen.number), None)


@team_view
@require_GET
def tool_list(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.VIEW, team=request.actor.team)
    tools = list(selectors.tool_list(team=request.actor.team))
    for tool in tools:
        tool.advice = tool_advice(selectors.tool_spec(tool))
        tool.reached = _reached(tool)
    context = {
        "tools": tools,
        "advice": toolset_advice([selectors.tool_spec(tool) for tool in tools]),
        "can_edit": can(request.actor, Permission.AGENT_EDIT),
    }
    return render(request, "agents/tool_list.html", context)


def _reached(tool: Tool) -> str:
    """Where a tool answers, for lists; addresses without their secrets."""
    if tool.transport == Tool.Transport.HTTP:
        return shown_url(str(tool.config.get("server_url", "")))
    if tool.transport == Tool.Transport.BUILTIN:
        builtin = BUILTINS.get(str(tool.config.get("builtin", "")))
        return builtin.label if builtin else "built in"
    return shown_url(str(tool.config.get("url", ""))) if tool.config.get("url") else "MCP server"


@team_view
@require_http_methods(["GET", "POST"])
def tool_new(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.AGENT_EDIT, team=request.actor.team)
    form = ToolForm(request.POST or None, request.FILES or None, team=request.actor.team)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            tool = services.tool_create(actor=request.actor, **_tool_fields(request, form))
            messages.success(request, f"{tool.name} is stored. Try it before an agent uses it.")
            return redirect_to(request, reverse("agents:tool-detail", args=[request.actor.team.slug, tool.public_id]))
    context = {"form": form, "types": TYPES.items(), "builtins": BUILTINS.values(), "can_edit": True}
    return render(request, "agents/tool_new.html", context, status=422 if form.errors else 200)


@team_view
@require_http_methods(["GET", "POST"])
def tool_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    tool = selectors.tool_get(team=request.actor.team, public_id=public_id)
    if request.method == "POST":
        check_can(request.actor, Permission.AGENT_EDIT, team=tool.team)
    form = ToolForm(request.POST or None, request.FILES or None, team=tool.team, tool=tool)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            services.tool_update(actor=request.actor, tool=tool, **_tool_fields(request, form))
            messages.success(request, f"{tool.name} is stored. Published agents keep it as it was.")
            return redirect_to(request, reverse("agents:tool-detail", args=[request.actor.team.slug, tool.public_id]))
    if form.errors:
        tool.refresh_from_db()
    return render(
        request, "agents/tool_detail.html", _tool_context(request, tool, form), status=422 if form.errors else 200
    )


def _tool_fields(request: TeamRequest, form: ToolForm) -> dict[str, Any]:
    files = form.uploads()
    return form.tool_fields(services.corpus_add(actor=request.actor, files=files) if files else None)


def _tool_context(request: TeamRequest, tool: Tool, form: ToolForm) -> dict[str, Any]:
    spec = selectors.tool_spec(tool)
    item = selectors.example_item(team=tool.team, field=str(tool.config.get("item_field", "")))
    return {
        "tool": tool,
        "form": form,
        "types": TYPES.items(),
        "builtins": BUILTINS.values(),
        "reached": _reached(tool),
        "advice": tool_advice(spec),
        "schema": spec.schema(),
        "used_by": selectors.agents_using(tool=tool),
        "example": json.dumps(_example(tool, item), ensure_ascii=False),
        "item": item,
        "can_edit": can(request.actor, Permission.AGENT_EDIT),
    }


def _example(tool: Tool, item: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a test call can start from; for a table, a key that it has."""
    arguments = example_arguments(tool.parameters)
    table = tool.config.get("table") or at_path(item, str(tool.config.get("item_field") or "-"))
    key = tool.config.get("key")
    if tool.config.get("builtin") == "table" and isinstance(table, dict) and table and key in arguments:
        arguments[key] = next(iter(table))
    return arguments


@team_view
@require_POST
def tool_test(request: TeamRequest, public_id: str) -> HttpResponse:
    tool = selectors.tool_get(team=request.actor.team, public_id=public_id)
    arguments = request.POST.get("arguments", "")
    context: dict[str, Any] = {"tool": tool, "arguments": arguments}
    try:
        item = json.loads(request.POST.get("item") or "{}")
        context["result"] = tool_try(
            actor=request.actor, tool=tool, arguments=arguments, item=item if isinstance(item, dict) else {}
        )
    except json.JSONDecodeError as exc:
        context["error"] = f"The item is not JSON: line {exc.lineno}, column {exc.colno}: {exc.msg}."
    except (ValueError, RecursionError):
        context["error"] = "The item has a number that is too long, or nests too deep."
    except StudioError as exc:
        if exc.status in {403, 404} and exc.code != "exceeded_quota":
            raise
        context["error"] = str(exc)
    if getattr(request, "htmx", False):
        return render(request, "agents/_tool_test_result.html", context)
    page = _tool_context(request, tool, ToolForm(team=tool.team, tool=tool))
    return render(request, "agents/tool_detail.html", {**page, **context, "example": arguments})


@team_view
@require_GET
def model_list(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.VIEW, team=request.actor.team)
    context = {
        "models": selectors.model_list(team=request.actor.team),
        "can_edit": can(request.actor, Permission.AGENT_EDIT),
    }
    return render(request, "agents/model_list.html", context)


@team_view
@require_http_methods(["GET", "POST"])
def model_new(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.AGENT_EDIT, team=request.actor.team)
    form = ModelForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            model = services.model_endpoint_create(actor=request.actor, **form.cleaned_data)
            messages.success(request, f"{model.name} is stored.")
            return redirect_to(request, reverse("agents:model-list", args=[request.actor.team.slug]))
    return render(request, "agents/model_new.html", {"form": form}, status=422 if form.errors else 200)


@team_view
@require_POST
def model_key_set(request: TeamRequest, public_id: str) -> HttpResponse:
    model = selectors.model_get(team=request.actor.team, public_id=public_id)
    services.model_endpoint_key_set(actor=request.actor, model=model, api_key=request.POST.get("api_key", ""))
    messages.success(request, f"{model.name} has another key now.")
    return redirect_to(request, reverse("agents:model-list", args=[request.actor.team.slug]))
