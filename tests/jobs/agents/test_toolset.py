"""Calling tools: what the model sees for each outcome of the reference's section on limits."""

import asyncio
import json
from pathlib import Path

import pytest

from jobs.agents.tools.http import shown_url
from jobs.agents.tools.spec import ToolSpec, call_sentence, is_placeholder
from jobs.agents.tools.toolset import Toolset
from jobs.agents.tools.types import Limits
from tests.fakes.http import FakeAnswer, FakeHttp, answers

CASES = Path(__file__).parents[2] / "data" / "cases" / "inputs"
ITEM = {"messages": [{"role": "user", "content": "q"}], "schedule": {"tea": "4"}}
LOOKUP = ToolSpec(
    "lookup",
    "Look up a rate.",
    {"type": "object", "properties": {"good": {"type": "string"}}, "required": ["good"]},
    config={"builtin": "table", "item_field": "schedule", "key": "good"},
)
SEARCH = ToolSpec(
    "search",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    transport="http",
    config={"server_url": "https://tools.example.com/run"},
    headers={"Authorization": "Bearer CANARY-token"},
)


def call(specs, name, arguments, *, http=None, call_id="call_1", **limits):
    toolset = Toolset(specs, item=ITEM, trace_id="trace_1", limits=Limits(**limits), http=http)
    return asyncio.run(toolset.call(name, arguments, call_id=call_id))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr("jobs.agents.tools.http._FIRST_PAUSE", 0.001)


def test_builtin_call_answers():
    result = call([LOOKUP], "lookup", '{"good": "tea"}')
    assert (result.output, result.is_error, result.fatal) == ("4", False, False)


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        ("nothing", "{}", "no tool named 'nothing'. Tools: lookup"),
        ("lookup", '{"good": "te', "not valid JSON"),
        ("lookup", "{id: 7,,}", "not valid JSON"),
        ("lookup", "[]", "must be one JSON object"),
        ("lookup", "", "missing argument: good"),
        ("lookup", "{}", "missing argument: good"),
        ("lookup", '{"good": 7}', "must be of type string"),
        ("lookup", '{"good": NaN}', "NaN is not JSON"),
        ("lookup", "[" * 100_000, "nested too deep"),
    ],
)
def test_bad_call_is_answered_as_an_error_and_the_rollout_goes_on(name, arguments, words):
    result = call([LOOKUP], name, arguments)
    assert words in result.output
    assert result.is_error
    assert not result.fatal


@pytest.mark.parametrize("case", ["c081_bad_args.json", "c083_garbled.json"])
def test_garbled_arguments_never_reach_the_server(case):
    data = json.loads((CASES / case).read_text())
    function = (data["steps"][0]["tool_calls"][0] if "steps" in data else data)["function"]
    spec = ToolSpec(function["name"], transport="http", config={"server_url": "https://tools.example.com/x"})
    http = FakeHttp(answers({"output": "done"}))
    result = call([spec], function["name"], function["arguments"], http=http)
    assert result.is_error
    assert "not valid JSON" in result.output
    assert http.posts == []


def test_http_call_has_the_wire_shape():
    http = FakeHttp(answers({"type": "function_call_output", "call_id": "call_1", "id": "fc", "output": "found"}))
    result = call([SEARCH], "search", '{"q":"tea"}', http=http)
    assert (result.output, result.is_error) == ("found", False)
    sent = http.posts[0]
    assert sent.url == "https://tools.example.com/run"
    assert sent.payload.pop("id").startswith("fc_")
    assert sent.payload == {
        "type": "function_call",
        "call_id": "call_1",
        "name": "search",
        "arguments": '{"q":"tea"}',
        "trace_id": "trace_1",
        "item": ITEM,
    }
    assert sent.headers["Authorization"] == "Bearer CANARY-token"
    assert sent.headers["Idempotency-Key"] == "trace_1:call_1"


@pytest.mark.parametrize(
    "answer, output, is_error, fatal",
    [
        (answers({"output": "ok"}), "ok", False, False),
        (answers({"output": {"a": [1, None]}}), '{"a": [1, null]}', False, False),
        (answers({"output": "Error: no such policy"}), "Error: no such policy", True, False),
        (answers({"error": "no such id"}, status=404), 'Error 404: {"error": "no such id"}', True, False),
        (answers({"output": "try another id"}, status=400), "try another id", True, False),
        (FakeAnswer(429, b""), "Error 429", True, False),
        (FakeAnswer(302, b"moved"), "Error 302: moved", True, False),
        (FakeAnswer(200, b"plain words"), "plain words", False, False),
        (FakeAnswer(200, b"\xff\xfe"), "\ufffd\ufffd", False, False),
        (answers({"result": 1}), '{"result": 1}', False, False),
        (
            FakeAnswer(200, b"x" * 1_000_001),
            "Error 413: the answer of search is larger than 1000000 bytes.",
            True,
            False,
        ),
        (FakeAnswer(503, b"down"), "The tool search answered with status 503.", True, True),
        (FakeAnswer(0, fault="timeout", reason="no answer within 5 s"), "within 5 s", True, True),
        (FakeAnswer(0, fault="refused", reason="10.0.0.1 is inside"), "10.0.0.1 is inside", True, True),
    ],
)
def test_http_outcomes_follow_the_reference(answer, output, is_error, fatal):
    result = call([SEARCH], "search", '{"q":"x"}', http=FakeHttp(answer))
    assert output in result.output
    assert (result.is_error, result.fatal) == (is_error, fatal)


def test_http_5xx_is_tried_three_times_more_with_the_same_body_and_key():
    http = FakeHttp(FakeAnswer(500), FakeAnswer(0, fault="unreachable"), FakeAnswer(504), answers({"output": "late"}))
    result = call([SEARCH], "search", '{"q":"x"}', http=http)
    assert result.output == "late"
    assert result.notes == ["answered at try 4"]
    assert len({post.body for post in http.posts}) == 1
    assert {post.headers["Idempotency-Key"] for post in http.posts} == {"trace_1:call_1"}


def test_http_4xx_and_refused_addresses_are_not_tried_again():
    for answer in (FakeAnswer(404), FakeAnswer(0, fault="refused"), FakeAnswer(0, fault="too_large")):
        http = FakeHttp(answer)
        call([SEARCH], "search", '{"q":"x"}', http=http)
        assert len(http.posts) == 1


def test_http_retries_end_with_the_time_of_the_call():
    http = FakeHttp(FakeAnswer(500))
    result = call([SEARCH], "search", '{"q":"x"}', http=http, tool_seconds=0.0005)
    assert result.fatal
    assert len(http.posts) == 1


def test_http_call_that_is_too_large_is_a_413():
    http = FakeHttp(answers({"output": "ok"}))
    result = call([SEARCH], "search", json.dumps({"q": "x" * 1_000_000}), http=http)
    assert result.output.startswith("Error 413")
    assert not result.fatal
    assert http.posts == []


@pytest.mark.parametrize("status", [200, 404])
def test_secrets_that_a_server_echoes_are_hidden(status):
    tool = json.loads((CASES / "c130_tool.json").read_text())
    spec = ToolSpec(
        "search", transport="http", config={"server_url": tool["server_url"]}, headers={"X-Key": "CANARY-header"}
    )
    echo = f"headers: CANARY-header, url: {tool['server_url']}"
    payload = {"output": echo} if status == 200 else {"error": echo}
    result = call([spec], "search", "{}", http=FakeHttp(answers(payload, status=status)))
    assert "CANARY" not in result.output
    assert "[hidden]" in result.output
    assert "CANARY" not in repr(spec.headers) or "CANARY-header" not in repr(spec).replace(tool["server_url"], "")
    assert shown_url(tool["server_url"]) == "https://tools.example.com/s?securityToken=…&x=…"


@pytest.mark.parametrize(
    "url", ["", "#TOOLS_SERVER_URL#", "https://<your-host>/x", "{{ url }}", "https://your-server/x", "${TOOLS}"]
)
def test_placeholder_address_is_refused(url):
    assert is_placeholder(url)
    http = FakeHttp(answers({"output": "ok"}))
    spec = ToolSpec("search", transport="http", config={"server_url": url})
    assert call([spec], "search", "{}", http=http).fatal
    assert http.posts == []


def test_real_address_is_no_placeholder():
    assert not is_placeholder("https://tools.example.com/run?version=2")


def test_schemas_keep_the_order_of_the_agent_and_take_missing_ones_from_the_row():
    row = {"tools": [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]}
    bare = ToolSpec("search", transport="http", config={"server_url": "https://tools.example.com"})
    toolset = Toolset([bare, LOOKUP], item=row, trace_id="t", limits=Limits())
    schemas = toolset.schemas()
    assert [schema["function"]["name"] for schema in schemas] == ["search", "lookup"]
    assert schemas[0]["function"]["parameters"] == {"type": "object"}


def test_name_with_the_hosted_prefix_is_understood():
    assert call([LOOKUP], "functions.lookup", '{"good": "tea"}').output == "4"


def test_spec_survives_the_way_to_the_trainer():
    assert ToolSpec.from_dict(json.loads(json.dumps(SEARCH.as_dict()))) == SEARCH
    assert "CANARY" not in repr(SEARCH)


def test_call_reads_as_a_sentence():
    assert call_sentence("Read a ruling · {id}", "read_ruling", {"id": "C-1"}) == "Read a ruling · C-1"
    assert call_sentence("", "read_ruling", {"id": "C-1"}) == "Read ruling · C-1"
    assert call_sentence("", "list_all", {}) == "List all"
