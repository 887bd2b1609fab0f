"""One rollout from item to trajectory. Portable: standard library only, no Django; policy and tools are handed in."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from jobs.agents.prompts import PromptError
from jobs.rollouts.engine.messages import assistant_message, opening_messages, told_messages, tool_message
from jobs.rollouts.engine.types import (
    Limits,
    PolicyError,
    PolicyReply,
    StepRecord,
    ToolCallRecord,
    ToolResult,
    Trajectory,
)

log = logging.getLogger(__name__)


class Policy(Protocol):
    """Who answers. Raises PolicyError when the model does not."""

    async def reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> PolicyReply: ...


class Tools(Protocol):
    def schemas(self) -> list[dict[str, Any]]: ...

    async def call(self, name: str, arguments: str, *, call_id: str) -> ToolResult: ...


async def run_rollout(
    *,
    item: dict[str, Any],
    policy: Policy,
    toolset: Tools,
    limits: Limits,
    system_prompt: str = "",
    trace_id: str = "",
    prefix: Sequence[StepRecord] = (),
) -> Trajectory:
    """Let the policy answer and call tools until it stops or a limit stops it.

    With a `prefix` it goes on after these steps of an earlier rollout, which count toward the limits, not as tokens.

    What the policy, a tool or the network does ends in a stop reason, never in an exception; only cancellation passes.
    A limit is the policy's own doing, so such a rollout is graded; a failure (`is_failed`) is not.
    """
    run = _Run(policy, toolset, limits)
    run.begin_after(prefix)
    run.trajectory.started_at = time.time()
    started = time.monotonic()
    clock = asyncio.timeout(limits.max_seconds)
    try:
        async with clock:
            await run.turns(opening_messages(item, system_prompt) + told_messages(prefix))
    except PromptError as exc:
        run.stop("studio_failed", str(exc))
    except PolicyError as exc:
        run.stop("model_failed", str(exc))
    except Exception as exc:  # a fault of ours must not take the batch's other rollouts along
        if isinstance(exc, TimeoutError) and clock.expired():
            run.stop("max_seconds")
        else:
            log.exception("rollout %s broke", trace_id)
            run.stop("studio_failed", f"Studio failed while running this rollout ({type(exc).__name__}).")
    run.trajectory.milliseconds = (time.monotonic() - started) * 1000
    return run.trajectory


class _Run:
    """The state of one rollout."""

    def __init__(self, policy: Policy, toolset: Tools, limits: Limits) -> None:
        self.policy = policy
        self.toolset = toolset
        self.limits = limits
        self.trajectory = Trajectory()
        self.call_ids: set[str] = set()
        self.calls_made = 0

    def begin_after(self, prefix: Sequence[StepRecord]) -> None:
        """Take over steps that another rollout made."""
        for step in prefix:
            taken = replace(step, index=len(self.trajectory.steps), input_tokens=0, output_tokens=0)
            self.trajectory.steps.append(taken)
            self.call_ids.update(call.id for call in step.tool_calls)
            self.calls_made += len(step.tool_calls)

    def stop(self, reason: str, error: str = "") -> None:
        self.trajectory.stop_reason = reason
        self.trajectory.error = error
        if self.trajectory.steps and not self.trajectory.is_failed:
            self.trajectory.answer = self.trajectory.steps[-1].text

    async def turns(self, messages: list[dict[str, Any]]) -> None:
        tools = self.toolset.schemas()
        while True:
            step, reply = await self._turn(messages, tools)
            reason = self._limit_reached(step, reply)
            if reason:
                for call in step.tool_calls:
                    _not_run(call, reason)
                return self.stop(reason)
            messages.append(assistant_message(reply, step.tool_calls))
            fatal = await self._run_calls(step)
            if fatal:
                return self.stop("tool_failed", fatal)
            messages.extend(tool_message(call) for call in step.tool_calls)

    async def _turn(self, messages: list[dict], tools: list[dict]) -> tuple[StepRecord, PolicyReply]:
        step = StepRecord(index=len(self.trajectory.steps), started_at=time.time())
        started = time.monotonic()
        reply = await self.policy.reply(messages, tools)
        step.milliseconds = (time.monotonic() - started) * 1000
        step.text, step.reasoning, step.finish_reason = reply.text, reply.reasoning, reply.finish_reason
        step.input_tokens, step.output_tokens = reply.input_tokens, reply.output_tokens
        step.logprob_sum, step.entropy_mean = reply.logprob_sum, reply.entropy_mean
        step.tool_calls = [self._call_record(call) for call in reply.tool_calls]
        self.trajectory.steps.append(step)
        return step, reply

    def _limit_reached(self, step: StepRecord, reply: PolicyReply) -> str:
        """Why the rollout ends here, or nothing. Calls that no later turn could read are not made."""
        if not step.tool_calls:
            return "max_tokens" if reply.finish_reason == "length" else "answered"
        if self.trajectory.output_tokens >= self.limits.max_tokens:
            return "max_tokens"
        if self.calls_made + len(step.tool_calls) > self.limits.max_tool_calls:
            return "max_tool_calls"
        return "max_steps" if len(self.trajectory.steps) >= self.limits.max_steps else ""

    def _call_record(self, call: dict[str, Any]) -> ToolCallRecord:
        """The call with an id that is its own within the rollout, whatever the model gave."""
        function = call.get("function") or {}
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        record = ToolCallRecord(str(call.get("id") or ""), str(function.get("name") or ""), text)
        if record.id in self.call_ids or not record.id:
            why = "the call id was used before" if record.id else "the model gave no call id"
            record.notes.append(f"{why}; a new one was made")
            record.id = f"call_{secrets.token_hex(8)}"
        self.call_ids.add(record.id)
        return record

    async def _run_calls(self, step: StepRecord) -> str:
        """Make the step's calls, at most `parallel_tools` at once; returns the first fatal error, if any."""
        self.calls_made += len(step.tool_calls)
        gate = asyncio.Semaphore(max(1, self.limits.parallel_tools))
        started = time.monotonic()
        for call in step.tool_calls:
            _not_run(call, "max_seconds")  # what the record says if the clock stops the call half-way
        results = await asyncio.gather(*(self._run_call(call, gate) for call in step.tool_calls))
        step.milliseconds = (step.milliseconds or 0.0) + (time.monotonic() - started) * 1000
        return next((result.output for result in results if result.fatal), "")

    async def _run_call(self, call: ToolCallRecord, gate: asyncio.Semaphore) -> ToolResult:
        async with gate:
            result = await self.toolset.call(call.name, call.arguments, call_id=call.id)
        call.result, call.is_error, call.milliseconds = result.output, result.is_error, result.milliseconds
        call.notes = [note for note in call.notes if not note.startswith("not run or not finished")] + result.notes
        return result


_WHY = {
    "max_tokens": "the token limit was reached",
    "max_tool_calls": "the tool-call limit was reached",
    "max_steps": "the step limit was reached",
    "max_seconds": "the time limit was reached",
}


def _not_run(call: ToolCallRecord, reason: str) -> None:
    call.result, call.is_error = "", True
    call.notes.append(f"not run or not finished: {_WHY.get(reason, reason)}")
