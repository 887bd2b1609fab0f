"""The Chat Completions policy: requests, replies, retries and refusals."""

import asyncio
import json

import pytest

from jobs.rollouts.engine.types import PolicyError
from jobs.rollouts.policies.openai_chat import OpenAIChatPolicy
from tests.fakes.http import FakeAnswer, FakeHttp, answers
from tests.fakes.server import completion

TOOL = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}
ASK = [{"role": "developer", "content": "p"}, {"role": "user", "content": "q"}]


def ask(*script, messages=ASK, tools=(TOOL,), base_url="http://model.example.com/v1", **options):
    http = FakeHttp(*script)
    policy = OpenAIChatPolicy(
        base_url=base_url, api_key="sk-CANARY", model="m", http=http, first_pause=0.001, **options
    )
    try:
        return asyncio.run(policy.reply(messages, list(tools))), http
    except PolicyError as exc:
        return exc, http


def test_request_and_reply():
    message = {
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "lookup", "arguments": '{"x":1}'}}],
    }
    body = completion(message)
    body["choices"][0]["studio"] = {"logprob_sum": -1.5, "entropy_mean": 0.2}
    reply, http = ask(answers(body), sampling={"temperature": 0.0, "max_tokens": 64, "top_p": None})
    assert http.posts[0].url == "http://model.example.com/v1/chat/completions"
    assert http.posts[0].headers["Authorization"] == "Bearer sk-CANARY"
    assert http.posts[0].payload == {
        "model": "m",
        "temperature": 0.0,
        "max_tokens": 64,
        "messages": [{"role": "system", "content": "p"}, {"role": "user", "content": "q"}],
        "tools": [TOOL],
    }
    assert reply.tool_calls == message["tool_calls"]
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("", "hm", "tool_calls")
    assert (reply.input_tokens, reply.output_tokens) == (20, 7)
    assert (reply.logprob_sum, reply.entropy_mean) == (-1.5, 0.2)


def test_openai_itself_gets_the_newest_dialect():
    _, http = ask(
        answers(completion({"content": "x"})),
        base_url="https://api.openai.com/v1/",
        sampling={"max_tokens": 9, "reasoning_effort": "low"},
        response_format={"type": "json_object"},
        tools=(),
    )
    sent = http.posts[0].payload
    assert http.posts[0].url == "https://api.openai.com/v1/chat/completions"
    assert sent["messages"][0]["role"] == "developer"
    assert sent["max_completion_tokens"] == 9
    assert sent["response_format"] == {"type": "json_object"}
    assert "tools" not in sent
    assert "max_tokens" not in sent


def test_azure_keeps_its_api_version():
    _, http = ask(answers(completion({"content": "x"})), base_url="https://x.openai.azure.com/openai/v1?api-version=1")
    assert http.posts[0].url == "https://x.openai.azure.com/openai/v1/chat/completions?api-version=1"
    assert http.posts[0].headers["api-key"] == "sk-CANARY"


@pytest.mark.parametrize(
    "message, text, calls",
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", 0),
        ({"content": None, "refusal": "I will not."}, "I will not.", 0),
        ({"content": "x", "tool_calls": None}, "x", 0),
        ({"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}, "", 1),
    ],
)
def test_replies_of_many_servers_are_read(message, text, calls):
    reply, _ = ask(answers(completion(message)))
    assert reply.text == text
    assert len(reply.tool_calls) == calls
    assert all(isinstance(call["function"]["arguments"], str) for call in reply.tool_calls)


@pytest.mark.parametrize(
    "first",
    [
        FakeAnswer(429, b"", {"retry-after": "0.001"}),
        FakeAnswer(500),
        FakeAnswer(0, fault="unreachable"),
        FakeAnswer(0, fault="timeout"),
        FakeAnswer(200, b"not json"),
        answers({"choices": []}),
    ],
)
def test_transient_fault_is_tried_again(first):
    reply, http = ask(first, first, answers(completion({"content": "x"})))
    assert reply.text == "x"
    assert len({post.body for post in http.posts}) == 1


def test_transient_fault_that_lasts_is_a_policy_error():
    error, http = ask(FakeAnswer(503), max_tries=3)
    assert isinstance(error, PolicyError)
    assert error.transient
    assert len(http.posts) == 3


def test_refusal_is_shown_in_the_providers_words_without_the_key():
    error, http = ask(answers({"error": {"message": "Incorrect API key provided: sk-CANARY."}}, status=401))
    assert str(error) == "The model answered with status 401: Incorrect API key provided: [hidden]."
    assert not error.transient
    assert len(http.posts) == 1


def test_what_only_we_know_is_not_sent():
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}], "opaque": {"x": 1}},
        {"role": "tool", "tool_call_id": "a", "content": ""},
    ]
    _, http = ask(answers(completion({"content": "x"})), messages=messages)
    sent = json.loads(http.posts[0].body)["messages"]
    assert sent == [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "tool", "tool_call_id": "a", "content": ""},
    ]


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Too long.", "code": "context_length_exceeded"},
        {"message": "This model's maximum context length is 4096 tokens."},
        {"message": "The conversation has 516 tokens; 512 fit.", "code": None},
    ],
)
def test_conversation_that_outgrew_the_context_is_the_policys_own_limit(error):
    refusal = answers({"error": error}, status=400)
    reply, _ = ask(refusal, messages=[*ASK, {"role": "assistant", "content": "long"}])
    assert (reply.finish_reason, reply.text, reply.tool_calls) == ("length", "", [])
    opening, _ = ask(refusal)
    assert isinstance(opening, PolicyError)
