"""Rollouts in rounds: tokens kept as sampled, limits honoured, tools overlapping, cancel at once. A scripted model."""

import asyncio
import threading
import time

import pytest

from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.types import Limits
from jobs.backends.trl import clients, rounds
from jobs.backends.trl.control import Cancelled
from jobs.rollouts.engine.types import PolicyReply, ToolResult
from jobs.rollouts.policies.generation import Generation, Stopped
from tests.fakes.mcp_server import mcp_server

TABLE = ToolSpec("lookup", config={"builtin": "table", "item_field": "schedule", "key": "good"})
CALL = '{"good":"tea"}'


class ScriptedChat:
    """Says what it is told, turn by turn; one character is one token."""

    context = 200

    def __init__(self, *script: str, seconds: float = 0.0) -> None:
        self.script, self.seconds = script, seconds
        self.batches: list[int] = []

    def prompt_ids(self, messages, tools):
        return list(b"prompt")

    def continuation_ids(self, messages):
        return list("".join(f"[{message['content']}]" for message in messages).encode())

    def generate(self, asks, *, should_stop):
        self.batches.append(len(asks))
        time.sleep(self.seconds)
        if should_stop():
            raise Stopped
        return [self.say(ask) for ask in asks]

    def say(self, ask):
        text = self.script[min(bytes(ask.prompt).count(b"["), len(self.script) - 1)]
        ids = list(text.encode())[: ask.max_tokens]
        return Generation(ids, [-0.5] * len(ids), [0.1] * len(ids), "stop" if len(ids) == len(text) else "length")

    def reply(self, ask, generation):
        text = bytes(generation.ids).decode()
        calls = []
        if text.startswith("call:"):
            calls = [{"id": "call_0", "type": "function", "function": {"name": "lookup", "arguments": text[5:]}}]
        return PolicyReply(
            text="" if calls else text,
            tool_calls=calls,
            finish_reason=generation.finish_reason,
            output_tokens=len(generation.ids),
        )


def run(chat, count=1, *, limits=None, stop=lambda: False, tool=TABLE, **setup):
    made = rounds.Setup(
        chat=chat,
        tools=[tool],
        limits=limits or Limits(),
        system_prompt="",
        temperature=1.0,
        max_reply_tokens=setup.pop("max_reply_tokens", 50),
    )
    item = {"messages": [{"role": "user", "content": "?"}], "schedule": {"tea": "12"}}
    trials = [rounds.Try(f"item-{n}", item, n, f"trace-{n}", f"1:{n}") for n in range(count)]
    return rounds.rollouts_run(made, trials, should_stop=stop)


def test_tokens_are_those_sampled_and_those_the_tools_answered():
    [outcome] = run(ScriptedChat(f"call:{CALL}", "12"))
    tokens = outcome.tokens
    assert bytes(tokens.completion).decode() == f"call:{CALL}[12]12"
    written = "".join(chr(token) for token, mask in zip(tokens.completion, tokens.mask, strict=True) if mask)
    assert written == f"call:{CALL}12"
    assert [bytes(tokens.completion[start:end]).decode() for start, end in tokens.turns] == [f"call:{CALL}", "12"]
    assert len(tokens.logprobs) == len(tokens.mask) == len(tokens.completion)
    assert (outcome.trajectory.answer, outcome.trajectory.stop_reason) == ("12", "answered")


def test_rollouts_are_generated_together():
    chat = ScriptedChat(f"call:{CALL}", "12")
    outcomes = run(chat, 5)
    assert chat.batches == [5, 5]
    assert [outcome.trial.key for outcome in outcomes] == [f"item-{n}" for n in range(5)]


def test_malformed_call_is_answered_as_an_error_and_the_rollout_goes_on():
    [outcome] = run(ScriptedChat('call:{"good":tea}', "none"))
    [call] = outcome.trajectory.tool_calls
    assert call.is_error
    assert "not valid JSON" in call.result
    assert outcome.trajectory.stop_reason == "answered"


@pytest.mark.parametrize(
    "limits, reason",
    [
        (Limits(max_steps=2), "max_steps"),
        (Limits(max_tool_calls=1), "max_tool_calls"),
        (Limits(max_tokens=25), "max_tokens"),
    ],
)
def test_limits_end_a_rollout_that_never_stops(limits, reason):
    [outcome] = run(ScriptedChat(f"call:{CALL}"), limits=limits)
    assert outcome.trajectory.stop_reason == reason
    assert sum(outcome.tokens.mask) <= limits.max_tokens


def test_full_context_ends_as_token_limit():
    [outcome] = run(ScriptedChat(f"call:{CALL}"), limits=Limits(max_steps=100, max_tool_calls=100))
    assert outcome.trajectory.stop_reason == "max_tokens"
    assert len(outcome.tokens.prompt + outcome.tokens.completion) <= ScriptedChat.context


def test_tools_of_different_rollouts_overlap(monkeypatch):
    async def slow(self, name, arguments, *, call_id):
        await asyncio.sleep(0.2)
        return ToolResult("12")

    monkeypatch.setattr(rounds.Toolset, "call", slow)
    began = time.monotonic()
    run(ScriptedChat(f"call:{CALL}", "12"), 10)
    assert time.monotonic() - began < 1.0


def test_one_timed_out_rollout_does_not_hold_up_the_others(monkeypatch):
    async def stuck(self, name, arguments, *, call_id):
        await asyncio.sleep(30 if self.trace_id == "trace-0" else 0)
        return ToolResult("12")

    monkeypatch.setattr(rounds.Toolset, "call", stuck)
    monkeypatch.setattr(rounds, "PATIENCE_SECONDS", 0.2)
    outcomes = run(ScriptedChat(f"call:{CALL}", "12"), 3, limits=Limits(max_seconds=1.0))
    assert [one.trajectory.stop_reason for one in outcomes] == ["max_seconds", "answered", "answered"]


def test_cancel_during_a_slow_tool_is_quick(monkeypatch):
    async def stuck(self, name, arguments, *, call_id):
        await asyncio.sleep(30)
        return ToolResult("12")

    monkeypatch.setattr(rounds.Toolset, "call", stuck)
    told = threading.Event()
    threading.Timer(0.3, told.set).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        run(ScriptedChat(f"call:{CALL}", "12"), 3, stop=told.is_set)
    assert time.monotonic() - began < 2


def test_cancel_during_generation_is_quick():
    with pytest.raises(Cancelled):
        run(ScriptedChat("12", seconds=0.2), 3, stop=lambda: True)


def test_fault_of_the_model_fails_the_run_and_not_its_rollouts():
    class Broken(ScriptedChat):
        def generate(self, asks, *, should_stop):
            raise FloatingPointError("not finite")

    with pytest.raises(FloatingPointError):
        run(Broken("12"), 3)


def test_tool_of_an_mcp_server_answers_in_the_trainer_too(monkeypatch):
    pytest.importorskip("mcp")
    monkeypatch.setenv("STUDIO_ALLOWED_PRIVATE_HOSTS", "127.0.0.1")
    with mcp_server() as address:
        lookup = ToolSpec("lookup", transport="mcp", config={"url": address, "tool": "rate"})
        outcomes = run(ScriptedChat(f"call:{CALL}", "12"), 3, tool=lookup, limits=Limits(tool_seconds=20))
    answers = [call.result for outcome in outcomes for call in outcome.trajectory.tool_calls]
    assert answers == ["tea: 4"] * 3


def test_mcp_programs_run_in_the_trainer_only_where_the_operator_allows_them(monkeypatch):
    monkeypatch.setenv("STUDIO_MCP_COMMANDS", " a , b,")
    assert clients.mcp_commands() == {"a", "b"}
    monkeypatch.delenv("STUDIO_MCP_COMMANDS")
    lookup = ToolSpec("lookup", transport="mcp", config={"command": "/bin/true"})
    ended = run(ScriptedChat(f"call:{CALL}", "12"), tool=lookup, limits=Limits(tool_retries=0))[0].trajectory
    assert ended.stop_reason == "tool_failed"
    assert "STUDIO_MCP_COMMANDS" in ended.error
