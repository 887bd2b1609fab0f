"""What answers a gateway's calls in this process: one event loop with its connections, and graders kept compiled."""

import asyncio
import os
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from django.conf import settings

from graders.services import grader_compiled
from jobs.agents.selectors import toolspecs
from jobs.agents.tools.mcp import McpSessions
from jobs.agents.tools.toolset import Toolset
from jobs.agents.tools.types import ToolResult, limits_from
from jobs.rollouts.models import Gateway
from rftstudio.core.outbound import OutboundClient, allowed_hosts, async_httpx_client

KEPT_GRADERS = 8

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a forked worker must not use its parent's
_clients: dict[tuple[int, frozenset[str]], tuple[OutboundClient, McpSessions]] = {}
_graders: OrderedDict[tuple[int, int], Any] = OrderedDict()


def call_tool(
    gateway: Gateway, name: str, arguments: str, *, call_id: str, trace_id: str, item: dict[str, Any]
) -> ToolResult:
    """Call the agent version's tool. The trainer itself retries a failing tool, so we do not."""
    version = gateway.batch.agent_version
    limits = replace(limits_from(version.limits), tool_retries=0)
    specs, allowed = toolspecs(version), allowed_hosts()

    async def call() -> ToolResult:
        key = (os.getpid(), allowed)
        if key not in _clients:
            _clients[key] = _network(allowed)
        http, mcp = _clients[key]
        toolset = Toolset(specs, item=item, trace_id=trace_id, limits=limits, http=http, mcp=mcp)
        return await toolset.call(name, arguments, call_id=call_id)

    return asyncio.run_coroutine_threadsafe(call(), _loop()).result(limits.tool_seconds + 30)


def _network(allowed: frozenset[str]) -> tuple[OutboundClient, McpSessions]:
    """Connections that are kept from call to call. An MCP session that went stale meanwhile is opened anew, once."""

    def client(headers: dict[str, str]) -> Any:
        return async_httpx_client(allowed=allowed, headers=headers)

    mcp = McpSessions(client, commands=frozenset(settings.STUDIO_MCP_COMMANDS), retries=1)
    return OutboundClient(allowed=allowed), mcp


def compiled_grader(gateway: Gateway) -> Any:
    """The batch's grader, compiled once and kept; the one unused longest makes room."""
    key = (os.getpid(), gateway.batch.grader_version_id)
    with _lock:
        if key in _graders:
            _graders.move_to_end(key)
            return _graders[key]
        compiled = _graders[key] = grader_compiled(gateway.batch.grader_version)
        # One that is pushed out may be grading still, so it is left to end with its last user.
        while len(_graders) > KEPT_GRADERS:
            _graders.popitem(last=False)
        return compiled


def _loop() -> asyncio.AbstractEventLoop:
    pid = os.getpid()
    with _lock:
        if pid not in _loops:
            loop = _loops[pid] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="gateway", daemon=True).start()
        return _loops[pid]
