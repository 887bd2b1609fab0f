"""Runs rollouts concurrently in an event loop of its own thread, and grades them off that loop.

The thread that made the crew keeps the database to itself: it hands work in and takes outcomes out of a queue, so a
slow query never stalls a call in flight, and a slow rollout never stalls the storing of the others.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from graders.types import Grade, Sample
from jobs.agents.tools.mcp import McpSessions
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.toolset import Toolset
from jobs.rollouts.engine.loop import Policy, run_rollout
from jobs.rollouts.engine.sample import sample_of
from jobs.rollouts.engine.types import Limits, PolicyError, StepRecord, Trajectory
from rftstudio.core.outbound import OutboundClient, async_httpx_client

log = logging.getLogger(__name__)

GRADER_THREADS = 16


@dataclass(frozen=True)
class Work:
    """One claimed rollout. `attempt` fences it: whoever claims it later has a higher one."""

    rollout_id: int
    attempt: int
    trace_id: str
    item: dict[str, Any]
    seed: int | None = None  # of its sampling, where the model takes one
    prefix: tuple[StepRecord, ...] = ()  # steps of an earlier rollout that this one goes on from


@dataclass
class Outcome:
    """What became of one rollout; `grade` is empty where there was nothing to grade."""

    work: Work
    trajectory: Trajectory
    grade: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """What all rollouts of a batch share. `policy` is called once, inside the loop, with the crew's HTTP client."""

    policy: Callable[[OutboundClient], Policy]
    grade: Callable[[dict[str, Any], Sample, str], Grade] | None
    specs: list[ToolSpec]
    limits: Limits
    system_prompt: str = ""
    response_format: dict[str, Any] | None = None
    allowed_hosts: frozenset[str] = frozenset()
    model_hosts: frozenset[str] = frozenset()  # opened for the model only, never for a tool
    mcp_commands: frozenset[str] = frozenset()


class Crew:
    """Use as a context manager. `start` and `collect` belong to the thread that made it."""

    def __init__(self, recipe: Recipe, *, concurrency: int) -> None:
        self.recipe = recipe
        self.concurrency = concurrency
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task] = set()
        self._graders = ThreadPoolExecutor(GRADER_THREADS, thread_name_prefix="grader")
        self._thread = threading.Thread(target=self._run, name="rollouts", daemon=True)

    def __enter__(self) -> "Crew":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._graders.shutdown(wait=True, cancel_futures=True)

    def start(self, work: Work) -> None:
        self._loop.call_soon_threadsafe(self._start, work)

    def cancel(self) -> None:
        """Stop every rollout; each still comes out, as cancelled."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    def collect(self, seconds: float) -> list[Outcome]:
        """Outcomes that are there, waiting at most so long for the first."""
        try:
            found = [self._outcomes.get(timeout=seconds)]
        except queue.Empty:
            return []
        while True:
            try:
                found.append(self._outcomes.get_nowait())
            except queue.Empty:
                return found

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._ready.set()  # whoever waits for the crew must not wait for ever
            self._loop.close()

    async def _serve(self) -> None:
        recipe = self.recipe
        self._stop = asyncio.Event()
        self._gate = asyncio.Semaphore(self.concurrency)
        size = self.concurrency * max(1, min(recipe.limits.parallel_tools, 4))
        async with (
            OutboundClient(allowed=recipe.allowed_hosts, max_connections=size) as tools_http,
            OutboundClient(allowed=recipe.allowed_hosts | recipe.model_hosts, max_connections=size) as model_http,
            McpSessions(self._mcp_http, commands=recipe.mcp_commands, retries=recipe.limits.tool_retries) as mcp,
        ):
            self._http, self._mcp = tools_http, mcp
            try:
                self._policy = recipe.policy(model_http)
            except Exception as exc:
                log.exception("the model cannot be reached")
                self._policy = _Unable(f"The model is not ready: {exc}")
            self._ready.set()
            await self._stop.wait()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _mcp_http(self, headers: dict[str, str]) -> Any:
        return async_httpx_client(allowed=self.recipe.allowed_hosts, headers=headers, seconds=60.0)

    def _start(self, work: Work) -> None:
        task = self._loop.create_task(self._one(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self, work: Work) -> None:
        try:
            async with self._gate:
                outcome = await self._run_and_grade(work)
        except asyncio.CancelledError:
            ended = Trajectory(stop_reason="cancelled", started_at=time.time(), error="The batch was cancelled.")
            outcome = Outcome(work, ended)
        self._outcomes.put(outcome)

    async def _run_and_grade(self, work: Work) -> Outcome:
        recipe = self.recipe
        toolset = Toolset(
            recipe.specs,
            item=work.item,
            trace_id=work.trace_id,
            limits=recipe.limits,
            http=self._http,
            mcp=self._mcp,
        )
        trajectory = await run_rollout(
            item=work.item,
            policy=self._policy if work.seed is None else _Seeded(self._policy, work.seed),
            toolset=toolset,
            limits=recipe.limits,
            system_prompt=recipe.system_prompt,
            trace_id=work.trace_id,
            prefix=work.prefix,
        )
        if trajectory.is_failed or recipe.grade is None:
            return Outcome(work, trajectory)
        sample = sample_of(trajectory, recipe.response_format)
        grade = await self._loop.run_in_executor(self._graders, self._grade, work, sample)
        return Outcome(work, trajectory, grade.as_dict())

    def _grade(self, work: Work, sample: Sample) -> Grade:
        try:
            return self.recipe.grade(work.item, sample, work.trace_id)
        except Exception as exc:  # graders promise not to raise; one that does leaves this rollout ungraded
            log.exception("grader broke on %s", work.trace_id)
            return Grade(None, errors={"other_error": True}, details=f"The grader broke ({type(exc).__name__}).")


class _Seeded:
    """A policy for one rollout whose every turn has a seed of its own, so that turns do not share their chances."""

    def __init__(self, policy: Any, seed: int) -> None:
        self.policy, self.seed, self.turn = policy, seed, 0

    async def reply(self, messages: list, tools: list) -> Any:
        self.turn += 1
        return await self.policy.reply(messages, tools, seed=(self.seed + self.turn) % 2**31)


class _Unable:
    """Stands for a model that could not be made ready, so that each rollout says why."""

    def __init__(self, why: str) -> None:
        self.why = why

    async def reply(self, messages: list, tools: list, *, seed: int | None = None) -> Any:
        raise PolicyError(self.why)
