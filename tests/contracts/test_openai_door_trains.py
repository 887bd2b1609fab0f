"""A running Studio that really trains, driven by the programs of the migration page: rows, job, events, tuned model."""

import asyncio
import json
import os
import signal

import pytest
from openai import AsyncOpenAI

from rftstudio.demo import world
from tests.contracts import programs
from tests.fakes.server import ToolServer
from tests.services.conftest import ROOT, data_folder, manage, wait_for  # noqa: F401
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


@pytest.fixture
def studio(data_folder):  # noqa: F811
    """`serve` with a team, a key and a name for the small base model."""
    from rftstudio.ops import processes

    one = Served(data_folder, STUDIO_ALLOWED_PRIVATE_HOSTS="127.0.0.1")
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
    for name, chosen in (("train", items[:12]), ("valid", items[12:])):
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
        assert tools.calls, "the tools were really called"
    printed = capsys.readouterr().out
    assert "Step 3/3, train mean reward=" in printed
    assert "Measuring the untrained model first" in printed
    job, chosen = space["job"], space["answer"].choices[0].message
    assert job.fine_tuned_model.startswith("ft:o4-mini-2025-04-16:demo:duty-desk:")
    assert chosen.content or chosen.tool_calls
    assert space["answer"].usage.completion_tokens > 0
    assert studio.key not in studio.said() + printed
    assert not [path for path in (studio.var_dir).rglob("*.log") if studio.key in path.read_text(errors="replace")]
