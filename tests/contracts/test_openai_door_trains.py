"""A running Studio that really trains, driven by the programs of the migration page and by both clients of the SDK."""

import asyncio
import inspect
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from rftstudio.demo import world
from tests import databases
from tests.contracts import programs
from tests.fakes.server import ToolServer
from tests.services.conftest import ROOT, manage, wait_for
from tests.services.served import Served

pytestmark = pytest.mark.training
TOOLS = [{"type": "function", "function": {key: tool[key] for key in ("name", "description", "parameters")}}
         for tool in world.TOOLS]  # fmt: skip
#: What an operator types, in one process: starting one for each command takes longer than all of them.
SET_UP = f"""
from django.core.management import call_command
call_command("user_create", "a@example.com", "--team", "Demo")
call_command("alias_set", "o4-mini-2025-04-16", "--target", "{ROOT / "rftstudio/demo/base_model"}", "--reply-tokens", "48",
             "--baseline-items", "4", "--readiness", "noted")
call_command("apikey_create", "--team", "demo", "--name", "migration")
"""


def row(item: dict) -> dict:
    """An item of the example as rows of the hosted service are: prompt and tool schemas stand in it."""
    messages = [{"role": "developer", "content": world.SYSTEM_PROMPT}, *item["messages"]]
    return {**item, "messages": messages, "tools": TOOLS}


def answer(call: dict) -> str:
    """The example's two tools as a server of the hosted wire shape."""
    arguments = json.loads(call["arguments"])
    if call["name"] == "lookup":
        return call["item"]["schedule"].get(str(arguments.get("good")), "Error: no such line")
    return str(int(float(arguments["a"]) * float(arguments["b"])))


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """`serve` with a team, a key and a name for the small base model, and room for two trainers."""
    from rftstudio.ops import processes

    folder = tmp_path_factory.mktemp("trains") / "var"
    folder.mkdir()
    databases.migrated_copy(folder / "studio.sqlite3")
    one = Served(folder, STUDIO_ALLOWED_PRIVATE_HOSTS="127.0.0.1", STUDIO_TRAINER_SLOTS="2")
    env = {**one.env, "DJANGO_SETTINGS_MODULE": "rftstudio.settings.local"}
    one.key = manage("shell", "-c", SET_UP, env={**env, "STUDIO_PASSWORD": "a long enough password"}).split()[-1]
    yield one
    one.end()
    wait_for(lambda: not any(map(processes.is_alive, one.everyone())), 60, "the group to be gone")


@pytest.fixture
def in_time():
    """The page's programs wait as long as it takes; this test does not."""

    def late(*_):
        raise TimeoutError("the job did not end")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(480)
    yield
    signal.alarm(0)


async def ask_again(job, row: dict) -> None:
    """The same job and its model through the asynchronous client."""
    async with AsyncOpenAI(base_url=os.environ["STUDIO_URL"] + "/v1", api_key=os.environ["STUDIO_KEY"]) as client:
        files = [file.id async for file in client.files.list()]
        assert job.training_file in files
        found = await client.fine_tuning.jobs.retrieve(job.id)
        assert found.fine_tuned_model == job.fine_tuned_model
        events = [event.message async for event in client.fine_tuning.jobs.list_events(job.id, limit=2)]
        assert len(set(events)) > 2, "more than one page"
        kept = [one async for one in client.fine_tuning.jobs.checkpoints.list(job.id)]
        for model in (job.fine_tuned_model, kept[0].fine_tuned_model_checkpoint):
            said = await client.chat.completions.create(model=model, messages=row["messages"], tools=row["tools"])
            assert said.usage.completion_tokens > 0


def test_programs_of_the_migration_page_train_and_sample(studio, in_time, tmp_path, monkeypatch, capsys):
    items = list(map(row, world.items_make(splits={"train": 12, "validation": 10})))
    chats = [
        {"messages": [*one["messages"], {"role": "assistant", "content": one["reference_answer"]}]} for one in items
    ]
    for name, chosen in (("train", items[:12]), ("valid", items[12:]), ("chats", chats[:12])):
        (tmp_path / f"{name}.jsonl").write_text(world.rows_text(chosen))
    (tmp_path / "grader.json").write_bytes((ROOT / "rftstudio/demo/grader.json").read_bytes())
    monkeypatch.chdir(tmp_path)
    with ToolServer(answer) as tools:
        for name, value in (
            ("STUDIO_URL", studio.url.rstrip("/")),
            ("STUDIO_KEY", studio.key),
            ("TOOLS_URL", tools.url),
        ):
            monkeypatch.setenv(name, value)
        space = programs.run(list(programs.programs()))
        asyncio.run(ask_again(space["job"], space["row"]))
        warm = asyncio.run(until(space["client"], space["warm"].id, "succeeded"))
        assert tools.calls, "the tools were really called"
    printed = capsys.readouterr().out
    assert "Step 3/3, train mean reward=" in printed
    assert "Measuring the untrained model first" in printed
    job, chosen = space["job"], space["answer"].choices[0].message
    assert job.fine_tuned_model.startswith("ft:o4-mini-2025-04-16:demo:duty-desk:")
    assert chosen.content or chosen.tool_calls
    assert space["answer"].usage.completion_tokens > 0
    losses = [event.data["train_loss"] for event in space["client"].fine_tuning.jobs.list_events(warm.id)
              if event.type == "metrics"]  # fmt: skip
    assert losses[0] < losses[-1], "newest first: it learnt the answers"
    assert warm.fine_tuned_model
    assert studio.key not in studio.said() + printed
    assert not [path for path in (studio.var_dir).rglob("*.log") if studio.key in path.read_text(errors="replace")]


# -- both clients, every verb -----------------------------------------------------------------------------------------

ENDED = ("succeeded", "failed", "cancelled")
LONG = {"n_epochs": 50, "batch_size": 4, "eval_interval": 100, "eval_samples": 1, "group_size": 2, "max_eval_items": 2}
CLOSE = {"type": "text_similarity", "name": "close", "input": "{{ sample.output_text }}",
         "reference": "{{ item.reference_answer }}", "evaluation_metric": "fuzzy_match"}  # fmt: skip


async def got(answer: Any) -> Any:
    """What a call of either client comes to."""
    return await answer if inspect.isawaitable(answer) else answer


async def every(pages: Any) -> list[Any]:
    """All rows of all pages, asked for one page after the other."""
    return [row async for row in pages] if hasattr(pages, "__aiter__") else list(pages)


async def until(plain: Any, job_id: str, *wanted: str) -> Any:
    """The job once it has one of these statuses."""
    while (job := await got(plain.fine_tuning.jobs.retrieve(job_id))).status not in wanted:
        assert job.status not in ENDED, (job.status, job.error)
        await asyncio.sleep(0.2)
    return job


async def drive(client: type, url: str, key: str, rows: list[dict], names: str) -> dict[str, Any]:
    """File, job, pause, events, checkpoints, sampling of what is trained so far, resume, cancel.

    Every answer is held against the SDK's own models, but for a paused job's: its types do not know that status.
    """
    strict = client(base_url=f"{url}/v1", api_key=key, max_retries=0, _strict_response_validation=True)
    plain = client(base_url=f"{url}/v1", api_key=key, max_retries=0)
    files = [
        await got(strict.files.create(file=(f"{name}.jsonl", world.rows_text(chosen).encode()), purpose="fine-tune"))
        for name, chosen in (("train", rows[:12]), ("valid", rows[12:]))
    ]
    newest = await got(strict.files.list(purpose="fine-tune", limit=1))
    assert newest.has_more
    assert {file.id for file in files} <= {file.id for file in await every(strict.files.list(limit=1))}

    method = {"type": "reinforcement", "reinforcement": {"grader": CLOSE, "hyperparameters": LONG}}
    job = await got(strict.fine_tuning.jobs.create(
        model="o4-mini-2025-04-16", training_file=files[0].id, validation_file=files[1].id, suffix=names, seed=7,
        metadata={"client": names}, method=method,
    ))  # fmt: skip
    assert (job.status, job.metadata) == ("validating_files", {"client": names})
    await until(strict, job.id, "running")
    while not any(event.type == "metrics" for event in await every(strict.fine_tuning.jobs.list_events(job.id))):
        await asyncio.sleep(0.3)
    await got(strict.fine_tuning.jobs.pause(job.id))
    paused = await until(plain, job.id, "paused")

    events = await every(strict.fine_tuning.jobs.list_events(job.id, limit=3))
    assert len({event.id for event in events}) == len(events) > 6, "more than two pages, none twice"
    assert events[-1].message == f"Created fine-tuning job: {job.id}"
    steps = [event.data["step"] for event in events if event.type == "metrics"]
    assert steps == list(range(len(steps), 0, -1)), "newest first, from the first train step"
    kept = await every(strict.fine_tuning.jobs.checkpoints.list(job.id, limit=1))
    assert kept[0].step_number == len(steps), "the snapshot that a pause makes"
    said = await got(strict.chat.completions.create(
        model=kept[0].fine_tuned_model_checkpoint, messages=rows[0]["messages"], max_completion_tokens=8
    ))  # fmt: skip
    assert said.usage.completion_tokens > 0
    pieces = await every(await got(strict.chat.completions.create(
        model=kept[0].fine_tuned_model_checkpoint, messages=rows[0]["messages"], max_completion_tokens=8, seed=1, stream=True,
    )))  # fmt: skip
    assert pieces[0].choices[0].delta.role == "assistant"
    assert pieces[-1].choices[0].finish_reason in ("stop", "length", "tool_calls")

    assert (await got(strict.fine_tuning.jobs.resume(job.id))).status in ("queued", "running"), "a worker may be quick"
    await until(strict, job.id, "running")
    with pytest.raises(openai.BadRequestError):
        await got(strict.fine_tuning.jobs.resume(job.id))
    await got(strict.fine_tuning.jobs.cancel(job.id))  # waits some seconds for the trainer to be gone
    await until(strict, job.id, "cancelled")
    (found,) = await every(strict.fine_tuning.jobs.list(metadata={"client": names}, limit=1))
    assert (found.id, found.status, found.fine_tuned_model) == (job.id, "cancelled", None)
    return {"paused": paused, "kept": kept, "steps": steps}


def test_both_clients_pause_resume_and_cancel_what_really_trains(studio, in_time):
    rows = world.items_make(splits={"train": 12, "validation": 10})

    def run(client: type, names: str) -> dict[str, Any]:
        return asyncio.run(drive(client, studio.url.rstrip("/"), studio.key, rows, names))

    with ThreadPoolExecutor(2) as at_once:
        done = list(at_once.map(run, (openai.OpenAI, AsyncOpenAI), ("sync", "async")))
    for one in done:
        assert one["paused"].fine_tuned_model is None
        assert one["steps"], "it trained before it paused"
