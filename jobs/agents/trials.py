"""A test call of one tool from its page: the same code path as a rollout's call, with short limits."""

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings
from django.core.cache import cache

from jobs.agents.models import Tool
from jobs.agents.selectors import tool_ready
from jobs.agents.tools.mcp import McpSessions
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.toolset import Toolset
from jobs.agents.tools.types import Limits, ToolResult
from rftstudio.core.errors import QuotaExceeded
from rftstudio.core.outbound import OutboundClient, allowed_hosts, async_httpx_client
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can

TEST_LIMITS = Limits(tool_seconds=20.0, tool_retries=0, max_result_bytes=100_000)
SHOWN = 4_000  # characters of an answer on the page
PER_MINUTE = 30


def tool_try(*, actor: Actor, tool: Tool, arguments: str, item: dict[str, Any]) -> ToolResult:
    """Call the tool once for real. The answer is cut; at most 30 calls a minute for a team."""
    check_can(actor, Permission.AGENT_EDIT, team=tool.team)
    _check_rate(actor)
    with ThreadPoolExecutor(1) as apart:  # the asking thread may have an event loop of its own
        result = apart.submit(asyncio.run, _call(tool_ready(tool), arguments, item)).result()
    if len(result.output) > SHOWN:
        result.notes.append(f"the answer has {len(result.output):,} characters; the first {SHOWN:,} are shown")
        result.output = result.output[:SHOWN]
    return result


async def _call(spec: ToolSpec, arguments: str, item: dict[str, Any]) -> ToolResult:
    allowed, commands = allowed_hosts(), frozenset(settings.STUDIO_MCP_COMMANDS)
    async with (
        OutboundClient(allowed=allowed, max_connections=2) as http,
        McpSessions(
            lambda headers: async_httpx_client(allowed=allowed, headers=headers), commands=commands, retries=0
        ) as mcp,
    ):
        trace = f"trace_test{secrets.token_hex(8)}"
        toolset = Toolset([spec], item=item, trace_id=trace, limits=TEST_LIMITS, http=http, mcp=mcp)
        return await toolset.call(spec.name, arguments, call_id=f"call_{secrets.token_hex(8)}")


def _check_rate(actor: Actor) -> None:
    key = f"tool-try:{actor.team.pk}"
    cache.add(key, 0, timeout=60)
    if cache.incr(key) > PER_MINUTE:
        raise QuotaExceeded("Your team has made many test calls this minute.", fix="Wait a minute, then try again.")
