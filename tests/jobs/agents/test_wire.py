"""A tool server written for the hosted service, over real HTTP: each outcome of the reference's limits holds."""

import asyncio
import json

import pytest

from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.toolset import Toolset
from jobs.agents.tools.types import Limits, ToolResult
from jobs.rollouts.engine.loop import run_rollout
from rftstudio.core.outbound import OutboundClient
from tests.fakes.policy import ScriptedPolicy, call, calls, says
from tests.fakes.server import Reply, ToolServer

ITEM = {"messages": [{"role": "user", "content": "q"}], "reference_answer": "145"}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr("jobs.agents.tools.http._FIRST_PAUSE", 0.01)


@pytest.fixture
def server():
    with ToolServer(lambda asked: json.dumps({"cap_eur": 145})) as running:
        yield running


def spec_of(server: ToolServer) -> ToolSpec:
    return ToolSpec("lookup_policy", transport="http", config={"server_url": server.url}, headers={"X-Key": "CANARY"})


def ask(server: ToolServer, arguments: str = '{"city":"Lisbon"}', **limits) -> ToolResult:
    async def once() -> ToolResult:
        async with OutboundClient(allowed=["127.0.0.1"]) as http:
            tools = Toolset([spec_of(server)], item=ITEM, trace_id="trace_9f2c", limits=Limits(**limits), http=http)
            return await tools.call("lookup_policy", arguments, call_id="call_01")

    return asyncio.run(once())


def test_server_written_for_the_hosted_service_works_unchanged(server):
    result = ask(server)
    assert (result.output, result.is_error) == ('{"cap_eur": 145}', False)
    sent = server.calls[0]
    assert {key: sent[key] for key in sent if key != "id"} == {
        "type": "function_call",
        "call_id": "call_01",
        "name": "lookup_policy",
        "arguments": '{"city":"Lisbon"}',
        "trace_id": "trace_9f2c",
        "item": ITEM,
    }
    assert server.requests[0].headers["x-key"] == "CANARY"


@pytest.mark.parametrize(
    "reply, output, is_error, fatal, tries",
    [
        (Reply.of({"error": "unknown city"}, 404), 'Error 404: {"error": "unknown city"}', True, False, 1),
        (Reply.of({"output": "which year?"}, 422), "which year?", True, False, 1),
        (Reply.of({"output": "Error: unknown city"}), "Error: unknown city", True, False, 1),
        (Reply(200, b"x" * 1_000_001), "Error 413", True, False, 1),
        (Reply(200, b"{broken"), "{broken", False, False, 1),
        (Reply(301, b"", {"Location": "http://169.254.169.254/"}), "Error 301", True, False, 1),
        (Reply(200, b"{}", {"Content-Encoding": "x", "X-Other": "1"}), "{}", False, False, 1),
    ],
)
def test_answer_that_is_shown_to_the_model(server, reply, output, is_error, fatal, tries):
    server.script = [reply]
    result = ask(server)
    assert result.output.startswith(output)
    assert (result.is_error, result.fatal, len(server.requests)) == (is_error, fatal, tries)


@pytest.mark.parametrize("reply", [Reply(500), Reply(504), Reply(cut=True)])
def test_server_that_heals_is_asked_up_to_four_times_with_one_key(server, reply):
    server.script = [reply] * 3
    assert ask(server).output == '{"cap_eur": 145}'
    assert len(server.requests) == 4
    assert len({request.body for request in server.requests}) == 1
    assert {request.headers["idempotency-key"] for request in server.requests} == {"trace_9f2c:call_01"}


@pytest.mark.parametrize("reply", [Reply.of({"headers": {"X-Key": "CANARY"}}, 500), Reply(cut=True)])
def test_server_that_does_not_heal_ends_the_rollout_and_tells_no_secret(server, reply):
    server.script = [reply] * 9

    async def once():
        limits = Limits()
        async with OutboundClient(allowed=["127.0.0.1"]) as http:
            tools = Toolset([spec_of(server)], item=ITEM, trace_id="t", limits=limits, http=http)
            policy = ScriptedPolicy(calls(call("lookup_policy", "{}")), says("never"))
            return await run_rollout(item=ITEM, policy=policy, toolset=tools, limits=limits)

    trajectory = asyncio.run(once())
    assert trajectory.stop_reason == "tool_failed"
    assert len(server.requests) == 4
    assert "CANARY" not in json.dumps(trajectory.as_dict())


def test_slow_server_is_given_up_at_the_limit(server):
    server.seconds = 5
    result = ask(server, tool_seconds=0.2)
    assert result.fatal
    assert "did not answer" in result.output
    assert result.milliseconds < 3_000


def test_answer_that_names_another_call_stays_with_the_call_that_was_made(server):
    server.script = [Reply.of({"call_id": "call_99", "id": "fc_99", "output": "mine"})]
    assert ask(server).output == "mine"


def test_parallel_calls_of_one_turn_run_together_and_pair_by_id():
    with ToolServer(lambda asked: asked["arguments"], seconds=0.1) as server:

        async def once():
            limits = Limits()
            async with OutboundClient(allowed=["127.0.0.1"]) as http:
                tools = Toolset([spec_of(server)], item=ITEM, trace_id="t", limits=limits, http=http)
                made = [call("lookup_policy", json.dumps({"n": n})) for n in range(4)]
                return await run_rollout(
                    item=ITEM, policy=ScriptedPolicy(calls(*made), says("x")), toolset=tools, limits=limits
                )

        trajectory = asyncio.run(once())
        assert [json.loads(made.result)["n"] for made in trajectory.tool_calls] == [0, 1, 2, 3]
        assert server.open_most == 4
