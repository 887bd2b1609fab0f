"""Tools of MCP servers through the official SDK: a real server over HTTP, and one as a program."""

import asyncio
import sys

import pytest

from jobs.agents.tools.mcp import McpSessions
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.toolset import Toolset
from jobs.agents.tools.types import Limits, ToolResult
from rftstudio.core.outbound import async_httpx_client
from tests.fakes.mcp_server import mcp_server

pytest.importorskip("mcp")

PROGRAM = """
from mcp.server import MCPServer
server = MCPServer("desk")

@server.tool()
def rate(good: str) -> str:
    "The rate of a good."
    return f"{good}: 4"

server.run()
"""


@pytest.fixture(scope="module")
def url():
    with mcp_server() as address:
        yield address


def ask(config: dict, *calls: str, allowed=("127.0.0.1",), commands=frozenset(), name="rate") -> list[ToolResult]:
    spec = ToolSpec(name, transport="mcp", config=config, headers={"X-Key": "CANARY"})

    async def once() -> list[ToolResult]:
        def http(headers):
            return async_httpx_client(allowed=allowed, headers=headers)

        async with McpSessions(http, commands=commands, retries=0) as mcp:
            toolset = Toolset([spec], item={}, trace_id="t", limits=Limits(tool_seconds=20), mcp=mcp)
            return await asyncio.gather(*(toolset.call(name, text, call_id="c") for text in calls))

    return asyncio.run(once())


def test_tool_of_a_server_is_called_and_its_errors_are_shown_to_the_model(url):
    good, bad = ask({"url": url}, '{"good": "tea"}', '{"good": "none"}')
    assert (good.output, good.is_error) == ("tea: 4", False)
    assert "no such good" in bad.output
    assert (bad.is_error, bad.fatal) == (True, False)


def test_parallel_calls_share_a_session(url):
    assert [result.output for result in ask({"url": url}, *(f'{{"good": "g{n}"}}' for n in range(8)))] == [
        f"g{n}: 4" for n in range(8)
    ]


def test_tool_may_have_another_name_on_the_server(url):
    assert ask({"url": url, "tool": "rate"}, '{"good": "tea"}', name="look_up")[0].output == "tea: 4"


def test_wrong_arguments_are_shown_to_the_model(url):
    result = ask({"url": url}, "{}")[0]
    assert (result.is_error, result.fatal) == (True, False)


def test_server_inside_the_network_is_refused(url):
    result = ask({"url": url}, '{"good": "tea"}', allowed=())[0]
    assert result.fatal
    assert "did not answer" in result.output


def test_server_that_is_not_there_ends_the_rollout():
    result = ask({"url": "http://127.0.0.1:9/mcp"}, "{}")[0]
    assert result.fatal
    assert "127.0.0.1:9" in result.output


def test_program_runs_only_where_the_operator_allows_it(tmp_path):
    (tmp_path / "server.py").write_text(PROGRAM)
    config = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
    refused = ask(config, '{"good": "tea"}')[0]
    assert refused.fatal
    assert "STUDIO_MCP_COMMANDS" in refused.output
    allowed = ask(config, '{"good": "tea"}', commands=frozenset({sys.executable}))[0]
    assert allowed.output == "tea: 4"
