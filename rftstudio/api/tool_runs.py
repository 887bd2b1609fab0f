"""`/v1/fine_tuning/alpha/tool/run`: one call of a tool server from this network, as a rollout would make it."""

import asyncio
import json
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from jobs.agents.tools.http import call_http
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.types import Limits
from rftstudio.api.doors import actor_of, body_of, door
from rftstudio.core.errors import UserError
from rftstudio.core.ids import new_id
from rftstudio.core.outbound import OutboundClient, allowed_hosts, check_url
from rftstudio.orders import parts
from rftstudio.teams.permissions import Permission

#: The call itself, and what a tool's declaration may carry beside it.
KNOWN = {
    "type", "name", "server_url", "headers", "arguments", "item", "trace_id", "id", "call_id", "description",
    "parameters", "strict", "function",
}  # fmt: skip
#: A try at a desk, so it waits less long than a rollout does.
LIMITS = Limits(tool_seconds=120.0, tool_retries=1)


class ToolRunWire(serializers.Serializer):
    type = serializers.CharField(required=False)
    name = serializers.CharField(max_length=64)
    server_url = serializers.CharField(max_length=2000)
    headers = serializers.DictField(child=serializers.CharField(), required=False)
    arguments = serializers.CharField(required=False)
    item = serializers.DictField(required=False)
    trace_id = serializers.CharField(required=False)
    id = serializers.CharField(required=False)
    call_id = serializers.CharField(required=False)


class ToolAnswerWire(serializers.Serializer):
    type = serializers.CharField()
    id = serializers.CharField()
    call_id = serializers.CharField()
    output = serializers.CharField()


@door("POST", "runTool", summary="Call a tool", body=ToolRunWire, answer=ToolAnswerWire)
def tool_run(request: Request) -> dict[str, Any]:
    """A 4xx of the tool server is the output, as the model would read it; a 5xx or no answer is a 400 here."""
    actor_of(request, Permission.AGENT_EDIT)
    body = body_of(request, known=KNOWN)
    if body.get("type") not in (None, "function_call"):
        raise UserError("type must be function_call.", where="type")
    spec = ToolSpec(
        name=_text(body, "name"), transport="http", config={"server_url": _text(body, "server_url")},
        headers=_headers(body.get("headers")),
    )  # fmt: skip
    parts.check_tools([{"name": spec.name, "server_url": spec.config["server_url"]}], where="tool")
    check_url(spec.config["server_url"], allowed=allowed_hosts(), where="server_url")
    item = body.get("item") if body.get("item") is not None else {}
    if not isinstance(item, dict):
        raise UserError("item must be an object.", where="item")
    call_id, trace_id = (
        str(body.get(name) or new_id(prefix))[:120] for name, prefix in (("call_id", "call_"), ("trace_id", "trace_"))
    )
    result = asyncio.run(_call(spec, _arguments(body.get("arguments")), call_id, item, trace_id))
    if result.fatal:
        raise UserError(result.output, where="server_url", fix="Look at the tool server's own log.", code="tool_failed")
    return {
        "type": "function_call_output",
        "id": str(body.get("id") or new_id("fc_"))[:120],
        "call_id": call_id,
        "output": result.output,
    }


async def _call(spec: ToolSpec, arguments: str, call_id: str, item: dict[str, Any], trace_id: str) -> Any:
    async with OutboundClient(allowed=allowed_hosts(), max_connections=1) as http:
        return await call_http(spec, arguments, call_id=call_id, item=item, trace_id=trace_id, limits=LIMITS, http=http)


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        raise UserError(f"Missing required parameter: {name}.", where=name, code="missing_required_parameter")
    if not isinstance(value, str) or not 1 <= len(value) <= 2000:
        raise UserError(f"{name} must be a text.", where=name)
    return value


def _headers(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise UserError("headers must be an object of texts.", where="headers")
    if any("\n" in text or "\r" in text for pair in value.items() for text in pair):
        raise UserError("A header holds a line end.", where="headers")
    return value


def _arguments(value: Any) -> str:
    """A JSON text on the wire; an object is taken too."""
    if value is None:
        return "{}"
    if isinstance(value, dict):
        return json.dumps(value)
    if not isinstance(value, str):
        raise UserError("arguments must be a JSON text.", where="arguments")
    return value
