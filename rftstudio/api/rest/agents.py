"""Agents with their versions, the tools they call, and the models that answer. Secrets go in and never come out."""

from dataclasses import asdict
from typing import Any

import orjson
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.agents import selectors, services, trials
from jobs.agents.diff import version_changes
from jobs.agents.ladder import ladder
from jobs.agents.models import Agent, AgentVersion, ModelEndpoint, Tool
from jobs.agents.tools.http import shown_url
from jobs.agents.validation import tool_advice
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.graders import RecipeProblemWire
from rftstudio.api.rest.wire import AnyObject, Row, Wanted, Wire, example_id
from rftstudio.core.sealed import unseal
from rftstudio.teams.permissions import Permission

EDIT = Permission.AGENT_EDIT
_ADDRESSES = ("server_url", "url")
_SCHEMA = {"type": "object", "properties": {"good": {"type": "string"}}, "required": ["good"]}


class ModelWire(Row):
    name = serializers.CharField()
    kind = serializers.ChoiceField(ModelEndpoint.Kind.values)
    base_url = serializers.CharField(allow_blank=True)
    model = serializers.CharField(help_text="The name sent on the wire; for local weights the folder.")
    has_key = serializers.SerializerMethodField()
    is_trainable = serializers.BooleanField()

    example = {
        "id": example_id("model-"), "created_at": "2026-11-30T08:00:00Z", "name": "Qwen 4B", "kind": "openai",
        "base_url": "https://models.example.com/v1", "model": "qwen3-4b", "has_key": True, "is_trainable": False,
    }  # fmt: skip

    def get_has_key(self, model: ModelEndpoint) -> bool:
        return bool(model.api_key_sealed)


class ModelNew(Wanted):
    name = serializers.CharField(max_length=160)
    kind = serializers.ChoiceField(ModelEndpoint.Kind.values)
    model = serializers.CharField(max_length=300)
    base_url = serializers.CharField(max_length=500, allow_blank=True, default="")
    api_key = serializers.CharField(max_length=2000, allow_blank=True, default="", write_only=True)
    is_trainable = serializers.BooleanField(default=False)

    example = {
        "name": "Qwen 4B", "kind": "openai", "model": "qwen3-4b", "base_url": "https://models.example.com/v1",
        "api_key": "sk-…",
    }  # fmt: skip


class KeySet(Wanted):
    api_key = serializers.CharField(max_length=2000, allow_blank=True, write_only=True)

    example = {"api_key": "sk-…"}


class ToolWire(Row):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    parameters = serializers.JSONField(help_text="JSON schema of the arguments.")
    transport = serializers.ChoiceField(Tool.Transport.values)
    config = serializers.SerializerMethodField(help_text="Addresses without their parameters, which may be secrets.")
    header_names = serializers.SerializerMethodField(help_text="Values are sealed.")
    sentence = serializers.CharField(allow_blank=True)
    is_replayable = serializers.BooleanField()

    example = {
        "id": example_id("tool-"), "created_at": "2026-11-30T08:00:00Z", "name": "lookup",
        "description": "Finds the heading of a good in the tariff.", "parameters": _SCHEMA, "transport": "http",
        "config": {"server_url": "https://tools.example.com/lookup"}, "header_names": ["Authorization"],
        "sentence": "Look up {good}", "is_replayable": True,
    }  # fmt: skip

    def get_config(self, tool: Tool) -> dict[str, Any]:
        return {
            key: shown_url(value) if key in _ADDRESSES and isinstance(value, str) else value
            for key, value in tool.config.items()
        }

    def get_header_names(self, tool: Tool) -> list[str]:
        return sorted(unseal(tool.headers_sealed) or {})


class _ToolFields(Wanted):
    headers = serializers.DictField(
        child=serializers.CharField(max_length=4000), required=False, write_only=True, help_text="Sealed when stored."
    )
    sentence = serializers.CharField(max_length=200, allow_blank=True, required=False)
    is_replayable = serializers.BooleanField(required=False)


class ToolNew(_ToolFields):
    name = serializers.CharField(max_length=64)
    description = serializers.CharField(max_length=20_000, allow_blank=True)
    parameters = AnyObject()
    transport = serializers.ChoiceField(Tool.Transport.values)
    config = AnyObject()

    example = {
        "name": "lookup", "description": "Finds the heading of a good in the tariff.", "parameters": _SCHEMA,
        "transport": "http", "config": {"server_url": "https://tools.example.com/lookup"},
    }  # fmt: skip


class ToolEdit(_ToolFields):
    name = serializers.CharField(max_length=64, required=False)
    description = serializers.CharField(max_length=20_000, allow_blank=True, required=False)
    parameters = AnyObject(required=False)
    transport = serializers.ChoiceField(Tool.Transport.values, required=False)
    config = AnyObject(required=False)

    example = {"description": "Finds the heading of a good in the customs tariff."}


class ToolTry(Wanted):
    arguments = AnyObject()
    item = AnyObject(required=False, help_text="For tools that read the item.")

    example = {"arguments": {"good": "pears"}}


class ToolResultWire(Wire):
    output = serializers.CharField(allow_blank=True)
    is_error = serializers.BooleanField()
    fatal = serializers.BooleanField(help_text="Would end a rollout.")
    milliseconds = serializers.FloatField()
    notes = serializers.ListField(child=serializers.CharField())

    example = {
        "output": "pears: see fruit, fresh",
        "is_error": False,
        "fatal": False,
        "milliseconds": 41.0,
        "notes": [],
    }


class AgentWire(Row):
    name = serializers.CharField()
    slug = serializers.CharField()

    example = {
        "id": example_id("agent-"), "created_at": "2026-11-30T08:00:00Z", "name": "Customs desk", "slug": "customs-desk"
    }  # fmt: skip


class AgentNew(Wanted):
    name = serializers.CharField(max_length=120)

    example = {"name": "Customs desk"}


class AgentVersionWire(Row):
    agent = serializers.CharField(source="agent.public_id")
    number = serializers.IntegerField()
    system_prompt = serializers.CharField(allow_blank=True)
    model = serializers.CharField(source="model.public_id")
    sampling = serializers.JSONField()
    tools = serializers.SerializerMethodField(help_text="The tools as they were frozen.")
    limits = serializers.JSONField()
    response_format = serializers.JSONField()
    change = serializers.CharField()
    note = serializers.CharField(allow_blank=True)

    example = {
        "id": example_id("aver-"), "created_at": "2026-11-30T08:05:00Z", "agent": example_id("agent-"), "number": 1,
        "system_prompt": "Answer shortly.", "model": example_id("model-"), "sampling": {"temperature": 0.7}, "tools": [],
        "limits": {"max_steps": 6}, "response_format": None, "change": "prompt", "note": "",
    }  # fmt: skip

    def get_tools(self, version: AgentVersion) -> list[dict[str, Any]]:
        return [
            {**tool, "config": {
                key: shown_url(value) if key in _ADDRESSES and isinstance(value, str) else value
                for key, value in tool.get("config", {}).items()
            }}
            for tool in version.tools
        ]  # fmt: skip


class AgentVersionNew(Wanted):
    system_prompt = serializers.CharField(max_length=200_000, allow_blank=True, trim_whitespace=False)
    model = serializers.CharField(max_length=64, help_text="A model's id.")
    tools = serializers.ListField(child=serializers.CharField(max_length=64), default=list, max_length=128)
    sampling = AnyObject(required=False)
    limits = AnyObject(required=False)
    response_format = AnyObject(required=False, allow_null=True)
    change = serializers.ChoiceField(services.CHANGES, default="prompt")
    note = serializers.CharField(max_length=200, allow_blank=True, default="")

    example = {
        "system_prompt": "Answer shortly.", "model": example_id("model-"), "tools": [example_id("tool-")],
        "limits": {"max_steps": 6},
    }  # fmt: skip


class RungWire(Wire):
    version = serializers.CharField(source="version.public_id")
    number = serializers.IntegerField(source="version.number")
    change = serializers.CharField(source="version.change")
    is_trained = serializers.BooleanField()
    evaluation = serializers.CharField(allow_blank=True)
    mean_reward = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    pass_rate = serializers.FloatField(allow_null=True)


class AgentChangeWire(Wire):
    what = serializers.CharField()
    before = serializers.CharField(allow_blank=True)
    after = serializers.CharField(allow_blank=True)
    lines = serializers.ListField(child=serializers.JSONField())


class ModelList(Endpoint):
    @describe("model_list", "List models", answers=ModelWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(selectors.model_list(team=self.team), ModelWire)

    @describe("model_create", "Add a model", right=EDIT, takes=ModelNew, answers=ModelWire, status=201)
    def post(self, request: Request) -> Response:
        made = services.model_endpoint_create(actor=self.actor, **self.values(ModelNew))
        return self.shown(made, ModelWire, status=201)


class ModelDetail(Endpoint):
    @describe("model_get", "Read a model", answers=ModelWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(selectors.model_get(team=self.team, public_id=public_id), ModelWire)


class ModelKey(Endpoint):
    @describe("model_key_set", "Put another key in place", right=EDIT, takes=KeySet, answers=ModelWire)
    def put(self, request: Request, public_id: str) -> Response:
        model = selectors.model_get(team=self.team, public_id=public_id)
        made = services.model_endpoint_key_set(actor=self.actor, model=model, **self.values(KeySet))
        return self.shown(made, ModelWire)


class ToolList(Endpoint):
    @describe("tool_list", "List tools", answers=ToolWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(selectors.tool_list(team=self.team), ToolWire)

    @describe("tool_create", "Add a tool", right=EDIT, takes=ToolNew, answers=ToolWire, status=201)
    def post(self, request: Request) -> Response:
        return self.shown(services.tool_create(actor=self.actor, **self.values(ToolNew)), ToolWire, status=201)


class OfTool(Endpoint):
    """An address below a tool."""

    def tool(self) -> Tool:
        return selectors.tool_get(team=self.team, public_id=self.kwargs["public_id"])


class ToolDetail(OfTool):
    @describe("tool_get", "Read a tool", answers=ToolWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.tool(), ToolWire)

    @describe("tool_edit", "Change a tool", right=EDIT, takes=ToolEdit, answers=ToolWire, has_condition=True)
    def patch(self, request: Request, public_id: str) -> Response:
        tool, wanted = self.tool(), self.values(ToolEdit)
        for key in _ADDRESSES:  # an address that came out without its parameters and comes back is the stored one
            stored, given = tool.config.get(key), wanted.get("config", {}).get(key)
            if isinstance(stored, str) and given == shown_url(stored):
                wanted["config"][key] = stored
        return self.shown(services.tool_update(actor=self.actor, tool=tool, **wanted), ToolWire)


class ToolAdvice(OfTool):
    @describe("tool_advice", "Read how the tool reads to a model", answers=RecipeProblemWire, is_list=True)
    def get(self, request: Request, public_id: str) -> Response:
        return self.listed(tool_advice(selectors.tool_spec(self.tool())), RecipeProblemWire)


class ToolTest(OfTool):
    is_kept = False

    @describe("tool_test", "Call a tool once", right=EDIT, takes=ToolTry, answers=ToolResultWire, is_kept=False)
    def post(self, request: Request, public_id: str) -> Response:
        tool, wanted = self.tool(), self.values(ToolTry)
        result = trials.tool_try(
            actor=self.actor, tool=tool, arguments=orjson.dumps(wanted["arguments"]).decode(), item=wanted.get("item", {})
        )  # fmt: skip
        return self.shown(result, ToolResultWire)


class AgentList(Endpoint):
    @describe("agent_list", "List agents", answers=AgentWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(Agent.objects.filter(team=self.team), AgentWire)

    @describe("agent_create", "Make an agent", right=EDIT, takes=AgentNew, answers=AgentWire, status=201)
    def post(self, request: Request) -> Response:
        return self.shown(services.agent_create(actor=self.actor, **self.values(AgentNew)), AgentWire, status=201)


class OfAgent(Endpoint):
    """An address below an agent."""

    def agent(self) -> Agent:
        return selectors.agent_get(team=self.team, public_id=self.kwargs["public_id"])


class AgentDetail(OfAgent):
    @describe("agent_get", "Read an agent", answers=AgentWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.agent(), AgentWire)


class AgentVersions(OfAgent):
    @describe("agent_version_list", "List an agent's versions", answers=AgentVersionWire, is_paged=True)
    def get(self, request: Request, public_id: str) -> Response:
        rows = selectors.agent_version_list(agent=self.agent()).select_related("agent", "model")
        return self.page(rows, AgentVersionWire, by="number")

    @describe(
        "agent_publish", "Freeze prompt, model, tools and limits as the next version", right=EDIT, takes=AgentVersionNew,
        answers=AgentVersionWire, status=201,
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        agent, wanted = self.agent(), self.values(AgentVersionNew)
        model = selectors.model_get(team=self.team, public_id=wanted.pop("model"))
        tools = [selectors.tool_get(team=self.team, public_id=one) for one in wanted.pop("tools")]
        made = services.agent_version_publish(actor=self.actor, agent=agent, model=model, tools=tools, **wanted)
        return self.shown(made, AgentVersionWire, status=201)


class AgentLadder(OfAgent):
    @describe("agent_ladder", "See the versions with what each scored", answers=RungWire, is_list=True)
    def get(self, request: Request, public_id: str) -> Response:
        return self.listed(ladder(list(selectors.agent_version_list(agent=self.agent()))).rungs, RungWire)


class AgentVersionDetail(Endpoint):
    @describe("agent_version_get", "Read an agent version", answers=AgentVersionWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(selectors.agent_version_get(team=self.team, public_id=public_id), AgentVersionWire)


class AgentVersionDiff(Endpoint):
    @describe("agent_version_diff", "Compare a version with another", answers=AgentChangeWire, is_list=True)
    def get(self, request: Request, public_id: str, other: str) -> Response:
        after = selectors.agent_version_get(team=self.team, public_id=public_id)
        before = selectors.agent_version_get(team=self.team, public_id=other)
        return self.listed([asdict(change) for change in version_changes(before, after)], AgentChangeWire)
