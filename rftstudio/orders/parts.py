"""Finds or makes what a job rests on: its grader version, tools and agent version. The same request again finds the same rows.

Lines that the REST door makes end in "(API)", so that no recipe that a person is editing changes under their hands.
"""

from typing import Any

from django.utils.text import slugify

from graders.models import Grader, GraderVersion
from graders.secrets import open_config
from graders.services import grader_create, grader_draft_save, grader_version_publish
from graders.types import Problem
from graders.validation import grader_problems, has_errors, normalised
from jobs.agents import selectors as agent_selectors
from jobs.agents import services as agent_services
from jobs.agents.models import Agent, AgentVersion, ModelEndpoint, Tool
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.validation import tool_problems
from rftstudio.core.errors import Conflict, UserError
from rftstudio.core.sealed import unseal
from rftstudio.teams.actor import Actor

MARK = "(API)"


def line_name(text: str) -> str:
    return f"{' '.join(text.split())[:100]} {MARK}".strip()


def reasons(problems: list[Problem], *, path: str = "") -> str:
    """Every problem in words: where, what, how to mend it."""
    return "\n".join(" ".join(filter(None, [f"{path}{one.path}: {one.message}", one.fix])) for one in problems)


def check_grader(config: Any, *, where: str) -> list[Problem]:
    """The warnings; UserError with every reason when the recipe cannot be used."""
    problems = grader_problems(config)
    if has_errors(problems):
        errors = [one for one in problems if one.level == "error"]
        param = where if errors[0].path in ("", "grader") else f"{where}.{errors[0].path}"
        raise UserError(reasons(errors), where=param, code="invalid_grader")
    return problems


def grader_version_ready(*, actor: Actor, config: dict[str, Any]) -> GraderVersion:
    """A published version of exactly this recipe."""
    name = line_name(str(config.get("name") or config["type"]))
    recipe = {**config, "name": config.get("name") or name}
    grader = Grader.objects.filter(team=actor.team, slug=slugify(name)[:120]).first()
    wanted = normalised(recipe, name)
    for version in grader.versions.order_by("-number") if grader else ():
        if open_config(version.config) == wanted:
            return version
    if grader is None:
        grader = grader_create(actor=actor, name=name, config=recipe)
    else:
        grader = grader_draft_save(actor=actor, grader=grader, config=recipe)
    return grader_version_publish(actor=actor, grader=grader, note="Came with a job through the REST door")


def check_tools(tools: list[dict[str, Any]], *, where: str) -> None:
    """UserError with every reason when a tool cannot be called."""
    found = []
    for place, tool in enumerate(tools):
        spec = ToolSpec(name=tool["name"], transport="http", config={"server_url": tool["server_url"]})
        found += [(place, problem) for problem in tool_problems(spec)]
    if found:
        words = "\n".join(f"{where}[{place}].{one.path}: {one.message} {one.fix}".strip() for place, one in found)
        raise UserError(words, where=f"{where}[{found[0][0]}].{found[0][1].path}", code="invalid_tools")


def tools_ready(*, actor: Actor, asked: list[dict[str, Any]], schemas: dict[str, dict[str, Any]]) -> list[Tool]:
    """The team's tools of these names, brought up to the address and schema that the job was sent with.

    The job's headers are its agent version's own. They stand at the tool only where they came with it or with its new server.
    """
    return [_tool_ready(actor, one, schemas[one["name"]]) for one in asked]


def _tool_ready(actor: Actor, asked: dict[str, Any], function: dict[str, Any]) -> Tool:
    headers = asked.get("headers") or {}
    fields = {
        "name": asked["name"],
        "description": str(function.get("description") or ""),
        "parameters": function.get("parameters") or {},
        "transport": Tool.Transport.HTTP,
        "config": {"server_url": asked["server_url"]},
    }
    tool = Tool.objects.filter(team=actor.team, name=asked["name"]).first()
    if tool is None:
        return agent_services.tool_create(actor=actor, headers=headers, **fields)
    if tool.transport != Tool.Transport.HTTP:
        raise Conflict(
            f"This team has a tool named {tool.name} already, and it is no HTTP tool.",
            where="method.reinforcement.tools",
            fix="Rename one of the two.",
        )
    if all(getattr(tool, name) == value for name, value in fields.items()):
        return tool
    is_moved = agent_selectors.tool_spec(tool).server != ToolSpec.from_dict(fields).server
    return agent_services.tool_update(actor=actor, tool=tool, headers=headers if is_moved else None, **fields)


def agent_version_ready(
    *,
    actor: Actor,
    label: str,
    model: ModelEndpoint,
    tools: list[Tool],
    headers: dict[str, dict[str, str]],
    sampling: dict[str, Any],
    limits: dict[str, Any],
    response_format: dict[str, Any] | None,
) -> AgentVersion:
    """A published version of exactly this agent, headers of its tools included. Its prompt stands in the rows, as with the hosted service."""
    name = line_name(label)
    agent = Agent.objects.filter(team=actor.team, slug=slugify(name)[:120]).first()
    frozen = [_frozen(tool) for tool in tools]
    own = agent_services.headers_frozen(tools, headers)
    for version in agent.versions.order_by("-number") if agent else ():
        if (
            version.model_id == model.pk
            and not version.system_prompt
            and list(version.tools) == frozen
            and version.keeps_headers
            and (unseal(version.headers_sealed) or {}) == own
            and (version.sampling, version.limits) == (sampling, limits)
            and version.response_format == (response_format or None)
        ):
            return version
    agent = agent or agent_services.agent_create(actor=actor, name=name)
    return agent_services.agent_version_publish(
        actor=actor,
        agent=agent,
        system_prompt="",
        model=model,
        tools=tools,
        headers=headers,
        sampling=sampling,
        limits=limits,
        response_format=response_format,
        change="tools" if tools else "training",
        note="Came with a job through the REST door",
    )


def _frozen(tool: Tool) -> dict[str, Any]:
    """As an agent version keeps it: without headers, with the tool whose headers are used."""
    spec = agent_selectors.tool_spec(tool).as_dict()
    return {"tool": tool.public_id} | {key: value for key, value in spec.items() if key != "headers"}
