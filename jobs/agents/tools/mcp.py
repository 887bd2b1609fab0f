"""Calls tools of MCP servers through the official SDK, an optional part. Portable; the network client is handed in.

Config: `url` of a streamable HTTP server, or `command` and `args` of a program, which only runs where the operator has
named it. `tool` is the tool's name on that server (default: the name the model sees). Sessions are kept for the life
of this object; a session that breaks is opened anew and the call tried again, as often as for an HTTP tool.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from graders.hiding import scrub, secrets_of
from jobs.agents.tools.http import shown_url
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.types import ToolResult

INSTALL = "MCP support is not installed here: pip install -r requirements/mcp.txt."
_FIRST_PAUSE = 0.25


class Refused(Exception):
    """This server may not be used; the text says why."""


class McpSessions:
    """Use as `async with`. `http_client(headers)` makes a guarded httpx client."""

    def __init__(
        self, http_client: Callable[[dict[str, str]], Any], *, commands: frozenset[str] = frozenset(), retries: int = 3
    ) -> None:
        self._http_client = http_client
        self._commands = commands
        self._retries = retries
        self._sessions: dict[str, _Session] = {}

    async def __aenter__(self) -> "McpSessions":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions))

    async def call(self, spec: ToolSpec, arguments: dict[str, Any], *, seconds: float) -> ToolResult:
        """Make one call. Never raises for what the server or the network does."""
        hidden = secrets_of(str(spec.config.get("url", "")), spec.headers)
        place = shown_url(str(spec.config["url"])) if spec.config.get("url") else str(spec.config.get("command", ""))
        for tries in range(self._retries + 1):
            session = self._session(spec)
            try:
                result = await session.call(str(spec.config.get("tool") or spec.name), arguments, seconds)
            except (Refused, ImportError) as exc:
                text = INSTALL if isinstance(exc, ImportError) else str(exc)
                return ToolResult(text, is_error=True, fatal=True)
            except Exception as exc:  # the SDK's ways to lose a server are many
                fault = type(exc).__name__
                await self._drop(spec, session)
                if tries < self._retries:
                    await asyncio.sleep(_FIRST_PAUSE * 2**tries)
                continue
            result.output = scrub(result.output, hidden)
            result.notes += [f"answered at try {tries + 1}"] if tries else []
            return result
        return ToolResult(f"The MCP server at {place} did not answer ({fault}).", is_error=True, fatal=True)

    def _session(self, spec: ToolSpec) -> "_Session":
        key = _key(spec)
        if key not in self._sessions:
            self._sessions[key] = _Session(self, spec)
        return self._sessions[key]

    async def _drop(self, spec: ToolSpec, session: "_Session") -> None:
        if self._sessions.get(_key(spec)) is session:
            del self._sessions[_key(spec)]
        await session.close()

    def _transport(self, spec: ToolSpec) -> tuple[Any, Any]:
        """What the SDK's client connects to, and the HTTP client to close with it."""
        if spec.config.get("url"):
            from mcp.client.streamable_http import streamable_http_client

            http = self._http_client(spec.headers)
            return streamable_http_client(str(spec.config["url"]), http_client=http), http
        command = str(spec.config.get("command", ""))
        if command not in self._commands:
            raise Refused(f"The command {command!r} is not among those the operator allows (STUDIO_MCP_COMMANDS).")
        from mcp import StdioServerParameters

        return StdioServerParameters(command=command, args=[str(part) for part in spec.config.get("args", [])]), None


def _key(spec: ToolSpec) -> str:
    place = {key: spec.config.get(key) for key in ("url", "command", "args")}
    return json.dumps([place, spec.headers], sort_keys=True)


class _Session:
    """One connection, held open by a task of its own: the SDK wants it opened and closed by the same one."""

    def __init__(self, owner: McpSessions, spec: ToolSpec) -> None:
        self._owner, self._spec = owner, spec
        self._client: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._hold())

    async def call(self, name: str, arguments: dict[str, Any], seconds: float) -> ToolResult:
        from mcp import MCPError

        async with asyncio.timeout(seconds):
            client = await asyncio.shield(self._client)
            try:
                return _result_of(await client.call_tool(name, arguments, read_timeout_seconds=seconds))
            except MCPError as exc:
                if exc.code in {-32600, -32601, -32602}:  # the call is wrong, not the server: the model reads why
                    return ToolResult(f"Error: {exc.message}", is_error=True)
                raise

    async def close(self) -> None:
        self._stop.set()
        await asyncio.wait({self._task}, timeout=5)
        self._task.cancel()

    async def _hold(self) -> None:
        try:
            from mcp import Client

            transport, http = self._owner._transport(self._spec)
            async with AsyncExitStack() as stack:
                if http is not None:
                    await stack.enter_async_context(http)
                self._client.set_result(await stack.enter_async_context(Client(transport)))
                await self._stop.wait()
        except Exception as exc:
            if not self._client.done():
                self._client.set_exception(exc)
                self._client.exception()  # read here, so that a session nobody waits for is quiet


def _result_of(result: Any) -> ToolResult:
    """The text of an MCP result; what is no text is named, structured content stands in where there is no text."""
    parts = []
    for block in result.content:
        text = getattr(block, "text", None)
        parts.append(text if isinstance(text, str) else f"[{getattr(block, 'type', 'content')}]")
    if not parts and result.structured_content is not None:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return ToolResult("\n".join(parts), is_error=bool(result.is_error))
