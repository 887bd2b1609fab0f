"""Many rollouts at once: the portable engine runs each, and their replies are generated together, round by round.

TRL's own tool loop is serial over rollouts. Here a round begins when every live rollout waits for the model; tool calls
of different rollouts overlap in between. Which rollouts share a batch therefore does not depend on how fast a tool was,
and each try draws its chance from a source of its own, so a run repeats bit by bit. Only when a tool takes longer than
`PATIENCE_SECONDS` do the others go on without its rollout, lest one slow call eat up everyone's time.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.toolset import Toolset
from jobs.backends.trl.clients import tool_network
from jobs.backends.trl.control import Cancelled
from jobs.backends.trl.tries import Outcome, Tokens, Try
from jobs.rollouts.engine.loop import run_rollout
from jobs.rollouts.engine.types import Limits, PolicyReply
from jobs.rollouts.policies.generation import Ask, Generation, Stopped

if TYPE_CHECKING:
    from jobs.rollouts.policies.hf_chat import HfChat


PATIENCE_SECONDS = 2.0


@dataclass(frozen=True)
class Setup:
    """What all rollouts of a run share."""

    chat: "HfChat"
    tools: list[ToolSpec]
    limits: Limits
    system_prompt: str
    temperature: float
    max_reply_tokens: int
    top_p: float = 1.0


class Round:
    """Gathers the asks of all live rollouts and generates when nobody is missing, or the wait has been long."""

    def __init__(self, chat: "HfChat", count: int, should_stop: Callable[[], bool]) -> None:
        self.chat, self.live, self.should_stop = chat, count, should_stop
        self.waiting: dict[int, tuple[Ask, asyncio.Future]] = {}
        self.stopped = False
        self.fault: Exception | None = None
        self.timer: asyncio.TimerHandle | None = None

    async def ask(self, place: int, ask: Ask) -> Generation:
        future = asyncio.get_running_loop().create_future()
        self.waiting[place] = (ask, future)
        if self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._generate)
        self._generate_if_full()
        try:
            return await future
        finally:
            self.waiting.pop(place, None)

    def leave(self) -> None:
        """A rollout has ended; the others need not wait for it."""
        self.live -= 1
        self._generate_if_full()

    def _generate_if_full(self) -> None:
        if self.waiting and len(self.waiting) >= self.live:
            self._generate()

    def _generate(self) -> None:
        if self.timer:
            self.timer.cancel()
            self.timer = None
        if not self.waiting:
            return
        batch = [self.waiting.pop(place) for place in sorted(self.waiting)]
        try:
            results = self.chat.generate([ask for ask, _ in batch], should_stop=self.should_stop)
        except Stopped:
            self.stopped = True
            for _, future in batch:
                future.cancel()
            return
        except Exception as exc:  # broken weights, no memory: no rollout's doing, so the run must not go on
            self.fault = exc
            for _, future in batch:
                future.cancel()
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)


class TokenPolicy:
    """The policy of one rollout. It keeps the very tokens it sampled, and appends only what the tools answered."""

    def __init__(self, setup: Setup, around: Round, place: int, trial: Try) -> None:
        self.setup, self.around, self.place = setup, around, place
        self.draw = random.Random(trial.chance).random  # noqa: S311
        self.tokens = Tokens()
        self.seen = 0
        self.is_full = False

    async def reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> PolicyReply:
        self._read(messages, tools)
        context = self.tokens.prompt + self.tokens.completion
        ask = Ask(context, self._room(len(context)), self.draw, self.setup.temperature, self.setup.top_p)
        if self.is_full or ask.max_tokens < 1:
            return PolicyReply(finish_reason="length", input_tokens=len(context))
        generation = await self.around.ask(self.place, ask)
        self.tokens.add(generation.ids, logprobs=generation.logprobs)
        reply = self.setup.chat.reply(ask, generation)
        for number, call in enumerate(reply.tool_calls):
            call["id"] = f"call_{len(self.tokens.turns)}_{number}"
        self.seen = len(messages) + 1  # its own message, which the engine appends next
        return reply

    def _read(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
        """Take in what is new. A tool result that no longer fits the context ends the rollout and is not trained on."""
        chat = self.setup.chat
        if not self.tokens.prompt:
            self.tokens.prompt = chat.prompt_ids(messages, tools)
            return
        new = chat.continuation_ids(messages[self.seen :])
        self.is_full = len(self.tokens.prompt) + len(self.tokens.completion) + len(new) >= chat.context
        if not self.is_full:
            self.tokens.add(new)

    def _room(self, used: int) -> int:
        """Tokens this reply may take: its own limit, what is left of the rollout's, what fits the context."""
        left = self.setup.limits.max_tokens - sum(self.tokens.mask)
        return min(self.setup.max_reply_tokens, left, self.setup.chat.context - used)


def rollouts_run(setup: Setup, trials: list[Try], *, should_stop: Callable[[], bool]) -> list[Outcome]:
    """Run all tries to their end, in the order given. Raises Cancelled soon after `should_stop` turns true."""
    return asyncio.run(_run_all(setup, trials, should_stop))


async def _run_all(setup: Setup, trials: list[Try], should_stop: Callable[[], bool]) -> list[Outcome]:
    async with tool_network(setup.tools) as network:
        return await _run_with(setup, trials, should_stop, network)


async def _run_with(
    setup: Setup, trials: list[Try], should_stop: Callable[[], bool], network: dict[str, Any]
) -> list[Outcome]:
    around = Round(setup.chat, len(trials), should_stop)
    tasks = [
        asyncio.ensure_future(_run_one(setup, around, place, trial, network)) for place, trial in enumerate(trials)
    ]
    watch = asyncio.ensure_future(_cancel_when(should_stop, tasks))
    try:
        return await asyncio.gather(*tasks)
    except asyncio.CancelledError as exc:
        if around.fault:
            raise around.fault from None
        if around.stopped or should_stop():
            raise Cancelled from exc
        raise
    finally:
        watch.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run_one(setup: Setup, around: Round, place: int, trial: Try, network: dict[str, Any]) -> Outcome:
    policy = TokenPolicy(setup, around, place, trial)
    toolset = Toolset(setup.tools, item=trial.item, trace_id=trial.trace_id, limits=setup.limits, **network)
    try:
        trajectory = await run_rollout(
            item=trial.item,
            policy=policy,
            toolset=toolset,
            limits=setup.limits,
            system_prompt=setup.system_prompt,
            trace_id=trial.trace_id,
        )
    finally:
        around.leave()
    return Outcome(trial, trajectory, policy.tokens)


async def _cancel_when(should_stop: Callable[[], bool], tasks: list[asyncio.Task]) -> None:
    """Ends rollouts that wait for slow tools when the run is cancelled."""
    while not should_stop():
        await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
