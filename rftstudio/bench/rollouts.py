"""How near the rollout engine comes to the ideal, whether its memory stays flat, and how fast rollouts come home.

1,000 rollouts of six tool calls each run against a fake model and a fake tool that each take 20 ms, 64 at once. Ideal
is (7 model turns + 6 calls) x 20 ms x 1,000 / 64. The fakes are real HTTP servers in a process of their own, so the
measured process pays for HTTP, JSON, the loop and grading, and nothing else. Coming home is `batch_record` on rollouts of
8 steps and 4 kB with rewards, stored when it returns.
"""

import asyncio
import gc
import json
import multiprocessing
import os
import resource
import time
from typing import Any

from graders.types import Grade
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.types import Limits
from jobs.rollouts.crew import Crew, Recipe, Work
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory
from jobs.rollouts.policies.openai_chat import OpenAIChatPolicy

ROLLOUTS = 1_000
CALLS = 6
SECONDS = 0.020
CONCURRENCY = 64
HOME_ROLLOUTS = 5_000
_TOOL = {
    "tool_calls": [{"id": "", "type": "function", "function": {"name": "lookup", "arguments": '{"good":"tea"}'}}],
    "role": "assistant",
    "content": None,
}


def measures() -> list[dict[str, Any]]:
    return [engine(), ingest(), ingest(is_masked=True)]


def engine(rollouts: int = ROLLOUTS) -> dict[str, Any]:
    """Seconds, share of the ideal, and growth of resident memory between the first tenth and the end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        port = ours.recv()
        return _measure(f"http://127.0.0.1:{port}", rollouts)
    finally:
        server.terminate()
        server.join()


def _measure(url: str, rollouts: int) -> dict[str, Any]:
    spec = ToolSpec("lookup", "Looks up.", transport="http", config={"server_url": f"{url}/tool"})
    recipe = Recipe(
        policy=lambda http: OpenAIChatPolicy(base_url=f"{url}/v1", api_key="", model="fake", http=http),
        grade=lambda item, sample, trace_id: Grade(float(sample.output_text == "done")),
        specs=[spec],
        limits=Limits(max_tool_calls=CALLS, max_steps=CALLS + 1),
        allowed_hosts=frozenset({"127.0.0.1"}),
    )
    item = {"messages": [{"role": "user", "content": "What is the rate of tea?"}]}
    finished = graded = calls = 0
    first_memory = 0
    with Crew(recipe, concurrency=CONCURRENCY) as crew:
        crew.start(Work(-1, 1, "trace_warm", item))
        crew.collect(30.0)
        started, cpu = time.perf_counter(), time.process_time()
        for number in range(rollouts):
            crew.start(Work(number, 1, f"trace_{number}", item))
        while finished < rollouts:
            for outcome in crew.collect(30.0):
                finished += 1
                graded += outcome.grade.get("reward") == 1.0
                calls += len(outcome.trajectory.tool_calls)
            if not first_memory and finished >= rollouts // 10:
                first_memory = _resident()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    ideal = (2 * CALLS + 1) * SECONDS * rollouts / CONCURRENCY
    return {
        "name": f"engine, {rollouts} rollouts of {CALLS} tool calls over HTTP",
        "rollouts": rollouts,
        "graded": graded,
        "tool_calls": calls,
        "concurrency": CONCURRENCY,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "ideal_seconds": round(ideal, 3),
        "share_of_ideal": round(ideal / seconds, 3),
        "target_share": 0.7,
        "memory_growth_mb": round((_resident() - first_memory) / 1e6, 1),
        "memory_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, 1),
    }


def ingest(rollouts: int = HOME_ROLLOUTS, *, is_masked: bool = False) -> dict[str, Any]:
    """Rollouts a second through the service, new and replayed, and bytes of the database for each. Masked: for a team
    that has every ready-made mask."""
    from django.db import connection

    from jobs.rollouts.masking import KINDS, WORDS
    from jobs.rollouts.models import MaskRule, RolloutBatch
    from jobs.rollouts.services import batch_record
    from rftstudio.teams.models import Team

    team = Team.objects.create(name="Bench", slug=f"bench-{time.time_ns()}")
    if is_masked:
        MaskRule.objects.bulk_create(MaskRule(team=team, kind=kind) for kind in KINDS if kind != WORDS)
    batch = RolloutBatch.objects.create(team=team, kind=RolloutBatch.Kind.TRAIN_STEP, source=f"bench-{team.pk}")
    said = _SENTENCES if is_masked else _NUMBERS
    records = [_record(number, team.pk, said) for number in range(rollouts)]
    batch_record(batch=batch, records=[_record(rollouts, team.pk, said)])
    before = _database_bytes(connection)
    gc.collect()  # what making the records left is not the service's to clear away
    started, cpu = time.perf_counter(), time.process_time()
    batch_record(batch=batch, records=records)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    grown = _database_bytes(connection) - before
    started = time.perf_counter()
    batch_record(batch=batch, records=records)
    replay = time.perf_counter() - started
    return {
        "name": f"coming home{', masked' if is_masked else ''}, {rollouts} rollouts of 8 steps",
        "rollouts_per_second": round(rollouts / seconds),
        "rollouts_per_cpu_second": round(rollouts / cpu),
        "target_per_second": 3_000,
        "replayed_per_second": round(rollouts / replay),
        "bytes_each": round(grown / rollouts) if grown else None,
    }


#: What the tool of a stored rollout says. Rows of bare numbers would all be tried as card numbers.
_NUMBERS = "{number} {place} " * 60
_SENTENCES = "The duty on {number} crates of pears is {place} percent by heading 0808, note 3 of 2019. " * 6


def _record(number: int, team_id: int, said: str) -> RolloutRecord:
    steps = [
        StepRecord(
            place,
            tool_calls=[
                ToolCallRecord(f"call_{place}", "lookup", '{"good":"tea"}', said.format(number=number, place=place))
            ],
            finish_reason="tool_calls",
            input_tokens=300,
            output_tokens=20,
            started_at=1_790_000_000.0 + place,
            milliseconds=900.0,
        )
        for place in range(7)
    ]
    steps.append(StepRecord(7, text=f"The duty is {number}.", finish_reason="stop", output_tokens=9))
    trajectory = Trajectory(steps, "answered", f"The duty is {number}.", started_at=1_790_000_000.0, milliseconds=7e3)
    grade = {"reward": 0.5, "sub_rewards": {"answer": 1.0, "budget": 0.2}}
    return RolloutRecord(f"item-{number // 8}", number % 8, f"trace_bench{team_id}x{number}", trajectory, grade)


def _database_bytes(connection: Any) -> int:
    """What the tables take; SQLite counts pages, PostgreSQL the whole database."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        else:
            cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class _Fake(asyncio.Protocol):
    """A model and a tool as cheap as can be: they must not be what is measured."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        if len(body) >= length:
            self.buffer = b""
            reply = _tool_reply(body) if b" /tool " in head.split(b"\r\n")[0] else _model_reply(body)
            asyncio.get_running_loop().call_later(SECONDS, self._send, reply)

    def _send(self, body: bytes) -> None:
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def _model_reply(body: bytes) -> bytes:
    made = body.count(b'"role":"tool"')
    message = _TOOL if made < CALLS else {"role": "assistant", "content": "done"}
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()


def _tool_reply(body: bytes) -> bytes:
    call = json.loads(body)
    return json.dumps({"call_id": call["call_id"], "id": call["id"], "output": "4"}).encode()


def _serve(pipe: Any) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Fake, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())
