"""The Responses policy: what is sent, what is read, and that reasoning goes back encrypted."""

import asyncio

from jobs.rollouts.engine.messages import assistant_message
from jobs.rollouts.engine.types import ToolCallRecord
from jobs.rollouts.policies.openai_responses import OpenAIResponsesPolicy
from tests.fakes.http import FakeHttp, answers

TOOL = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "x",
}
CALL = {"type": "function_call", "call_id": "call_1", "name": "lookup", "arguments": '{"a":1}'}
TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "145"}]}


def response(*items, **extra):
    return answers({"output": list(items), "usage": {"input_tokens": 9, "output_tokens": 4}, **extra})


def ask(*script, messages=None, **options):
    http = FakeHttp(*script)
    policy = OpenAIResponsesPolicy(base_url="https://api.example.com/v1", api_key="k", model="m", http=http, **options)
    return asyncio.run(policy.reply(messages or [{"role": "user", "content": "q"}], [TOOL])), http


def test_request_and_reply():
    nested = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    reply, http = ask(
        response(REASONING, CALL),
        sampling={"reasoning_effort": "low", "max_tokens": 9, "parallel_tool_calls": True},
        response_format=nested,
    )
    assert http.posts[0].url == "https://api.example.com/v1/responses"
    assert http.posts[0].payload == {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "parallel_tool_calls": True,
        "reasoning": {"effort": "low", "summary": "auto"},
        "max_output_tokens": 9,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
        "input": [{"role": "user", "content": "q"}],
        "tools": [{"type": "function", "strict": False, "name": "lookup", "parameters": {"type": "object"}}],
    }
    assert reply.tool_calls == [
        {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": '{"a":1}'}}
    ]
    assert (reply.reasoning, reply.finish_reason, reply.input_tokens, reply.output_tokens) == ("hm", "tool_calls", 9, 4)


def test_conversation_goes_back_with_its_encrypted_reasoning():
    first, _ = ask(response(REASONING, CALL))
    record = ToolCallRecord("call_1", "lookup", '{"a":1}', "145")
    conversation = [
        {"role": "developer", "content": "p"},
        assistant_message(first, [record]),
        {"role": "tool", "tool_call_id": "call_1", "content": "145"},
    ]
    second, http = ask(response(TEXT), messages=conversation)
    assert http.posts[0].payload["input"] == [
        {"role": "developer", "content": "p"},
        REASONING,
        {"type": "function_call", "call_id": "call_1", "name": "lookup", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "145"},
    ]
    assert (second.text, second.finish_reason) == ("145", "stop")


def test_cut_and_refused_answers():
    cut, _ = ask(response(TEXT, incomplete_details={"reason": "max_output_tokens"}))
    assert cut.finish_reason == "length"
    refused, _ = ask(response({"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}))
    assert refused.text == "I will not."


def test_what_is_no_response_is_asked_again():
    reply, http = ask(answers({"choices": []}), response(TEXT), first_pause=0.001)
    assert reply.text == "145"
    assert len(http.posts) == 2
