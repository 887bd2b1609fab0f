"""The network of a training run: what tools and graders are handed. Every call goes through Studio's guarded client,
which is loaded only when something calls out: a run with built-in tools needs nothing of the web side.
"""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from graders.clients import GraderClients, HttpAnswer, JudgeEndpoint, Unreachable
from graders.kinds.endpoint import MAX_BYTES
from jobs.agents.tools.spec import ToolSpec


def allowed_hosts() -> frozenset[str]:
    """Private hosts that the operator has opened, from the same variable as on the web side."""
    names = os.environ.get("STUDIO_ALLOWED_PRIVATE_HOSTS", "")
    return frozenset(name.strip().lower() for name in names.split(",") if name.strip())


def mcp_commands() -> frozenset[str]:
    """Programs that the operator lets MCP tools start, from the same variable as on the web side."""
    names = os.environ.get("STUDIO_MCP_COMMANDS", "")
    return frozenset(name.strip() for name in names.split(",") if name.strip())


@asynccontextmanager
async def tool_network(tools: Iterable[ToolSpec]) -> AsyncIterator[dict[str, Any]]:
    """What a Toolset is handed to call out with, for one event loop. Nothing where all tools are built in."""
    if all(tool.transport == "builtin" for tool in tools):
        yield {}
        return
    from jobs.agents.tools.mcp import McpSessions
    from rftstudio.core.outbound import OutboundClient, async_httpx_client

    allowed = allowed_hosts()

    def client(headers: dict[str, str]) -> Any:
        return async_httpx_client(allowed=allowed, headers=headers)

    async with OutboundClient(allowed=allowed) as http, McpSessions(client, commands=mcp_commands()) as mcp:
        yield {"http": http, "mcp": mcp}


def grader_clients(judges: dict[str, dict[str, Any]], owner: str) -> GraderClients:
    """Endpoint graders call through the guard; judge models are those that the spec names."""
    endpoints = {
        name: JudgeEndpoint(str(told["base_url"]), str(told.get("model", name)), dict(told.get("headers") or {}))
        for name, told in judges.items()
    }
    return GraderClients(owner=owner, http=GraderHttp(), judge=endpoints.get)


class GraderHttp:
    """POST through the guarded client, as graders want it. Connections are made on first use."""

    def __init__(self) -> None:
        self._client: Any = None

    def post(self, url: str, *, headers: dict[str, str], body: bytes, seconds: float) -> HttpAnswer:
        import httpx2

        from rftstudio.core.outbound import AddressRefused, sync_client

        if self._client is None:
            self._client = sync_client(allowed=allowed_hosts())
        try:
            with self._client.stream("POST", url, headers=headers, content=body, timeout=seconds) as answer:
                received = bytearray()
                for chunk in answer.iter_bytes():
                    received += chunk
                    if len(received) > MAX_BYTES:
                        break
                return HttpAnswer(answer.status_code, bytes(received), dict(answer.headers))
        except AddressRefused as exc:
            raise Unreachable(exc.message, may_heal=False) from exc
        except httpx2.TimeoutException as exc:
            raise Unreachable(f"no answer within {seconds:g} s") from exc
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as exc:
            raise Unreachable(f"the connection failed ({type(exc).__name__})") from exc
