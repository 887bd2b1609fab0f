"""Writes of agents, tools and models."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils.text import slugify

from jobs.agents import selectors
from jobs.agents.models import Agent, AgentVersion, Corpus, ModelEndpoint, Tool
from jobs.agents.prompts import PromptError, prompt_fields
from jobs.agents.tools.builtins.corpus_files import CorpusError, documents_of
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.types import Limits
from jobs.agents.validation import tool_problems
from rftstudio.core.errors import Conflict, UserError
from rftstudio.core.outbound import allowed_hosts, check_url
from rftstudio.core.sealed import seal, unseal
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

CHANGES = ("prompt", "tools", "tool_quality", "training", "limits")
_SPEC_FIELDS = ("name", "description", "parameters", "transport", "config", "sentence", "icon", "is_replayable")
_BOUNDS: dict[str, tuple[float, float]] = {
    "max_steps": (1, 1_000),
    "max_tool_calls": (0, 5_000),
    "max_tokens": (1, 10_000_000),
    "max_seconds": (1, 7_200),
    "max_result_bytes": (100, 1_000_000),
    "tool_seconds": (1, 600),
    "tool_retries": (0, 3),
    "parallel_tools": (1, 64),
}


@transaction.atomic
def model_endpoint_create(
    *,
    actor: Actor,
    name: str,
    kind: str,
    model: str,
    base_url: str = "",
    api_key: str = "",
    is_trainable: bool = False,
    digest: str = "",
) -> ModelEndpoint:
    """Add a model that can answer. The key is sealed and cannot be read back."""
    check_can(actor, Permission.AGENT_EDIT, team=actor.team)
    if not name.strip() or not model.strip():
        raise UserError("A model needs a name and a model.", where="name" if model.strip() else "model")
    if kind == ModelEndpoint.Kind.OPENAI:
        check_url(base_url, allowed=allowed_hosts(), where="base_url")
    _check_free(ModelEndpoint, actor, name=name.strip())
    endpoint = ModelEndpoint.objects.create(
        team=actor.team,
        created_by=actor.user,
        name=name.strip(),
        kind=kind,
        model=model.strip(),
        base_url=base_url.strip(),
        api_key_sealed=seal(api_key.strip()),
        is_trainable=is_trainable,
        digest=digest,
    )
    audit(actor, "model.created", endpoint, name=endpoint.name, kind=kind)
    return endpoint


@transaction.atomic
def model_endpoint_key_set(*, actor: Actor, model: ModelEndpoint, api_key: str) -> ModelEndpoint:
    """Put another key in place of the present one."""
    check_can(actor, Permission.AGENT_EDIT, team=model.team)
    model.api_key_sealed = seal(api_key.strip())
    model.save(update_fields=["api_key_sealed", "updated_at"])
    audit(actor, "model.key_set", model)
    return model


@transaction.atomic
def corpus_add(*, actor: Actor, files: Iterable[tuple[str, bytes]]) -> Corpus:
    """Keep the documents of these files; the same content again is the same corpus."""
    check_can(actor, Permission.AGENT_EDIT, team=actor.team)
    files = list(files)
    try:
        documents = documents_of(files)
    except CorpusError as exc:
        raise UserError(str(exc), where="documents") from exc
    digest = hashlib.sha256(json.dumps(documents, sort_keys=True).encode()).hexdigest()
    found = Corpus.objects.filter(team=actor.team, digest=digest).first()
    if found:
        return found
    names = ", ".join(name for name, _ in files)
    corpus = Corpus.objects.create(
        team=actor.team,
        created_by=actor.user,
        name=names if len(names) <= 200 else f"{names[:199]}…",
        digest=digest,
        document_count=len(documents),
        character_count=sum(len(document["text"]) for document in documents),
        documents=documents,
    )
    audit(actor, "corpus.added", corpus, files=len(files), documents=len(documents))
    return corpus


@transaction.atomic
def tool_create(
    *,
    actor: Actor,
    name: str,
    description: str,
    parameters: dict[str, Any],
    transport: str,
    config: dict[str, Any],
    headers: dict[str, str] | None = None,
    sentence: str = "",
    icon: str = "",
    is_replayable: bool = False,
) -> Tool:
    """Add a tool. Headers are sealed and cannot be read back."""
    check_can(actor, Permission.AGENT_EDIT, team=actor.team)
    fields = {
        "name": name.strip(),
        "description": description.strip(),
        "parameters": parameters or {},
        "transport": transport,
        "config": config,
        "sentence": sentence.strip(),
        "icon": icon,
        "is_replayable": is_replayable,
    }
    _check_tool(actor, ToolSpec(**fields, headers=headers or {}))
    _check_free(Tool, actor, name=fields["name"])
    tool = Tool.objects.create(team=actor.team, created_by=actor.user, headers_sealed=seal(headers or {}), **fields)
    audit(actor, "tool.created", tool, name=tool.name, transport=transport)
    return tool


@transaction.atomic
def tool_update(*, actor: Actor, tool: Tool, headers: dict[str, str] | None = None, **fields: Any) -> Tool:
    """Change a tool. `headers` None keeps the stored ones. Published agent versions keep the tool as it was."""
    check_can(actor, Permission.AGENT_EDIT, team=tool.team)
    unknown = set(fields) - set(_SPEC_FIELDS)
    if unknown:
        raise UserError(f"A tool has no {', '.join(sorted(unknown))}.")
    if "name" in fields and fields["name"] != tool.name:
        _check_free(Tool, actor, name=fields["name"])
    for key, value in fields.items():
        setattr(tool, key, value)
    if headers is not None:
        tool.headers_sealed = seal(headers)
    _check_tool(actor, selectors.tool_spec(tool))
    tool.save()
    audit(actor, "tool.updated", tool, fields=sorted([*fields, *(["headers"] if headers is not None else [])]))
    return tool


@transaction.atomic
def agent_create(*, actor: Actor, name: str) -> Agent:
    check_can(actor, Permission.AGENT_EDIT, team=actor.team)
    name = name.strip()
    slug = slugify(name)[:120] or "agent"
    if not name:
        raise UserError("An agent needs a name.", where="name")
    if Agent.objects.filter(team=actor.team, slug=slug).exists():
        raise Conflict(f"There is an agent named {name} already.", where="name", fix="Choose another name.")
    agent = Agent.objects.create(team=actor.team, created_by=actor.user, name=name, slug=slug)
    audit(actor, "agent.created", agent, name=name)
    return agent


@transaction.atomic
def agent_version_publish(
    *,
    actor: Actor,
    agent: Agent,
    system_prompt: str,
    model: ModelEndpoint,
    tools: list[Tool],
    sampling: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    response_format: dict[str, Any] | None = None,
    change: str = "prompt",
    note: str = "",
    headers: dict[str, dict[str, str]] | None = None,
) -> AgentVersion:
    """Freeze prompt, model, tools and limits as the agent's next version. Runs point at it, so it never changes.

    `headers`, by the name of the tool, are the version's own; without them those of the tools are used, as they are then.
    """
    check_can(actor, Permission.AGENT_EDIT, team=agent.team)
    for row in [model, *tools]:
        check_can(actor, Permission.AGENT_EDIT, team=row.team)
    _check_limits(limits or {})
    _check_prompt(system_prompt)
    if change not in CHANGES:
        raise UserError(f"A change is one of: {', '.join(CHANGES)}.", where="change")
    names = [tool.name for tool in tools]
    if len(set(names)) != len(names):
        raise UserError("Two tools have the same name.", where="tools", fix="Take one of them out.")
    for tool in tools:
        _check_tool(actor, selectors.tool_spec(tool))
    return _publish(
        actor,
        agent,
        system_prompt=system_prompt,
        model=model,
        sampling={key: value for key, value in (sampling or {}).items() if value is not None},
        tools=[_frozen(tool) for tool in tools],
        headers_sealed=seal(headers_frozen(tools, headers)),
        keeps_headers=headers is not None,
        limits={key: value for key, value in (limits or {}).items() if value is not None},
        response_format=response_format or None,
        change=change,
        note=note[:200],
    )


@transaction.atomic
def agent_version_republish(*, actor: Actor, version: AgentVersion, model: ModelEndpoint, note: str) -> AgentVersion:
    """The agent's next version: as this one to the letter, its frozen tools included, but answering with another model."""
    for row in (version.agent, model):
        check_can(actor, Permission.AGENT_EDIT, team=row.team)
    kept = (
        "system_prompt", "sampling", "tools", "headers_sealed", "keeps_headers", "limits", "response_format",
    )  # fmt: skip
    same = {name: getattr(version, name) for name in kept}
    return _publish(actor, version.agent, model=model, change="training", note=note[:200], **same)


def _publish(actor: Actor, agent: Agent, **content: Any) -> AgentVersion:
    Agent.objects.select_for_update().get(pk=agent.pk)  # two publishers at once get two numbers
    number = (agent.versions.aggregate(last=Max("number"))["last"] or 0) + 1
    version = AgentVersion.objects.create(team=agent.team, created_by=actor.user, agent=agent, number=number, **content)
    audit(actor, "agent.published", version, agent=agent.public_id, number=number)
    return version


def _frozen(tool: Tool) -> dict[str, Any]:
    """The tool's spec without its headers, and which tool's headers to use."""
    return {"tool": tool.public_id, **{key: getattr(tool, key) for key in _SPEC_FIELDS}}


def headers_frozen(tools: list[Tool], own: dict[str, dict[str, str]] | None) -> dict[str, dict[str, str]]:
    """Tool id → headers: a version's own, or those of the tools now. To be kept sealed."""
    found = {
        tool.public_id: (unseal(tool.headers_sealed) if own is None else own.get(tool.name)) or {} for tool in tools
    }
    return {key: value for key, value in found.items() if value}


def _check_tool(actor: Actor, spec: ToolSpec) -> None:
    problems = tool_problems(spec)
    if problems:
        first = problems[0]
        where = first.path.partition(".")[0]
        raise UserError(" ".join(problem.message for problem in problems), where=where, fix=first.fix)
    corpus = spec.config.get("corpus")
    if corpus and not selectors.corpus_list(team=actor.team).filter(public_id=corpus).exists():
        raise UserError(f"There are no documents {corpus}.", where="corpus", fix="Upload them, or choose others.")
    if spec.transport == "http":
        check_url(str(spec.config["server_url"]), allowed=allowed_hosts(), where="server_url")
    if spec.transport == "mcp" and spec.config.get("url"):
        check_url(str(spec.config["url"]), allowed=allowed_hosts(), where="url")
    for name, value in spec.headers.items():
        if not isinstance(value, str) or "\n" in f"{name}{value}" or "\r" in f"{name}{value}":
            raise UserError(f"The header {name} is not one line of text.", where="headers")


def _check_prompt(prompt: str) -> None:
    try:
        prompt_fields(prompt)
    except PromptError as exc:
        fix = 'Write {{ item.field }}, or {{ item["two words"] }}.'
        raise UserError(str(exc), where="system_prompt", fix=fix) from exc


def _check_limits(limits: dict[str, Any]) -> None:
    for key, value in limits.items():
        if key not in Limits.__dataclass_fields__:
            known = ", ".join(Limits.__dataclass_fields__)
            raise UserError(f"There is no limit {key}.", where="limits", fix=f"Use: {known}.")
        low, high = _BOUNDS[key]
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise UserError(f"{key} must be between {low:g} and {high:g}.", where=key)


def _check_free(model: type, actor: Actor, *, name: str) -> None:
    if model.objects.filter(team=actor.team, name=name).exists():
        raise Conflict(f"There is one named {name} already.", where="name", fix="Choose another name.")
