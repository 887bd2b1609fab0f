"""The tools of one rollout, ready to be called. Portable; network clients are handed in."""

import asyncio
import json
import time
from typing import Any, Protocol

from jobs.agents.tools.arguments import ArgumentError, check_types, parse_arguments
from jobs.agents.tools.builtins.catalog import BUILTINS
from jobs.agents.tools.http import call_http
from jobs.agents.tools.http_types import HttpClient
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.types import Limits, ToolResult


class McpClient(Protocol):
    """Calls tools of MCP servers; sessions are its own affair."""

    async def call(self, spec: ToolSpec, arguments: dict[str, Any], *, seconds: float) -> ToolResult: ...


class Toolset:
    """The tools one policy may call on one item.

    A call never raises for what the model, the tool or the network does: it is answered as an error that the model
    reads, and the rollout goes on. Only a `fatal` result (a server that keeps failing) ends it.
    """

    def __init__(
        self,
        specs: list[ToolSpec],
        *,
        item: dict[str, Any],
        trace_id: str,
        limits: Limits,
        http: HttpClient | None = None,
        mcp: McpClient | None = None,
    ) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self.item = item
        self.trace_id = trace_id
        self.limits = limits
        self._http = http
        self._mcp = mcp
        self._ready: dict[str, Any] = {}
        self._row_tools = _row_tools(item)

    def schemas(self) -> list[dict[str, Any]]:
        """Function tools in the order of the agent version. A tool without a schema takes the one in the item's row."""
        return [
            self._row_tools.get(spec.name, spec.schema()) if not spec.parameters else spec.schema()
            for spec in self.specs.values()
        ]

    async def call(self, name: str, arguments: str, *, call_id: str) -> ToolResult:
        """Make one call; `arguments` is the JSON text exactly as the model wrote it."""
        started = time.monotonic()
        result = await self._call(name, arguments, call_id)
        result.milliseconds = (time.monotonic() - started) * 1000
        if len(result.output) > self.limits.max_result_bytes // 4:  # a character takes at most 4 bytes
            size = len(result.output.encode("utf-8", "replace"))
            if size > self.limits.max_result_bytes:
                result.output = f"Error 413: the answer of {name} is larger than {self.limits.max_result_bytes} bytes."
                result.is_error = True
        return result

    async def _call(self, name: str, arguments: str, call_id: str) -> ToolResult:
        spec = self.specs.get(name) or self.specs.get(name.removeprefix("functions."))
        if spec is None:
            known = ", ".join(self.specs) or "none"
            return ToolResult(f"Error: there is no tool named {name[:80]!r}. Tools: {known}.", is_error=True)
        try:
            values = parse_arguments(arguments, spec.parameters)
            if spec.transport == "builtin":
                return self._call_builtin(spec, values)
        except ArgumentError as exc:
            return ToolResult(str(exc), is_error=True)
        if spec.transport == "http":
            return await self._call_http(spec, arguments, call_id)
        return await self._call_mcp(spec, arguments)

    def _call_builtin(self, spec: ToolSpec, values: dict[str, Any]) -> ToolResult:
        check_types(values, spec.parameters)
        if spec.name not in self._ready:
            builtin = BUILTINS[spec.config["builtin"]]
            self._ready[spec.name] = builtin.ready(spec, self.item)
        return ToolResult(self._ready[spec.name](values))

    async def _call_http(self, spec: ToolSpec, arguments: str, call_id: str) -> ToolResult:
        if self._http is None:
            return ToolResult(f"{spec.name} needs the network, which is closed here.", is_error=True, fatal=True)
        return await call_http(
            spec,
            arguments.strip() or "{}",
            call_id=call_id,
            item=self.item,
            trace_id=self.trace_id,
            limits=self.limits,
            http=self._http,
        )

    async def _call_mcp(self, spec: ToolSpec, arguments: str) -> ToolResult:
        if self._mcp is None:
            return ToolResult(f"{spec.name} needs an MCP client, which is absent here.", is_error=True, fatal=True)
        values = json.loads(arguments.strip() or "{}")
        try:
            async with asyncio.timeout(self.limits.tool_seconds):
                return await self._mcp.call(spec, values, seconds=self.limits.tool_seconds)
        except TimeoutError:
            text = f"The tool {spec.name} did not answer within {self.limits.tool_seconds:g} s."
            return ToolResult(text, is_error=True, fatal=True)


def _row_tools(item: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Function schemas that the row itself carries, by name (the hosted service keeps them there)."""
    rows = item.get("tools")
    functions = [row.get("function") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    named = [function for function in functions if isinstance(function, dict) and isinstance(function.get("name"), str)]
    return {function["name"]: {"type": "function", "function": function} for function in named}
