"""The recording gateway: wire shapes, retries, calls out of order, and 500 rollouts at once."""

import io
import json
import queue
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.utils import timezone

from graders.types import Grade
from jobs.agents.models import AgentVersion
from jobs.rollouts import gateway, gateway_loop
from jobs.rollouts.models import GatewayCall, Rollout, Step
from rftstudio.core.errors import NotAllowed, UserError
from rftstudio.usage.models import UsageRecord
from tests.fakes.mcp_server import mcp_server
from tests.fakes.server import Reply, ToolServer


@pytest.fixture
def door(batch_of, member, grader, monkeypatch):
    """An open gateway and a client that posts to it."""
    monkeypatch.setattr(gateway_loop, "grader_compiled", lambda version: grader)
    gateway_loop._graders.clear()
    batch = batch_of(kind="import", source="ftjob-hosted", queue=False)
    opened = gateway.gateway_open(actor=member, batch=batch)
    return Door(opened)


class Door:
    def __init__(self, opened) -> None:
        self.gateway = opened
        self.own = threading.local()
        self.addresses = gateway.gateway_addresses(opened, base="https://studio.example.com/")

    def client(self) -> Client:
        """One a thread: a client loads the middleware, and is no thread's but its own."""
        if not hasattr(self.own, "client"):
            self.own.client = Client()
        return self.own.client

    def post(self, what: str, body):
        path = getattr(self.addresses, what).removeprefix("https://studio.example.com")
        data = body if isinstance(body, bytes) else json.dumps(body)
        return self.client().post(path, data, content_type="application/json")

    def call(self, trace="trace_1", call_id="call_1", good="g0", n=0, **changes):
        body = {
            "type": "function_call",
            "id": f"fc_{call_id}",
            "call_id": call_id,
            "name": "lookup",
            "arguments": json.dumps({"good": good}),
            "trace_id": trace,
            "item": item(n),
            **changes,
        }
        return self.post("tool", body)

    def grade(self, trace="trace_1", answer="0", n=0, **sample):
        return self.post("grader", {"sample": {"output_text": answer, **sample}, "item": item(n), "trace_id": trace})


def item(n: int) -> dict:
    """An item as a hosted service sends it back: with the empty keys it adds."""
    return {
        "messages": [{"name": None, "role": "user", "content": f"rate of g{n}?"}],
        "tools": [],
        "parallel_tool_calls": True,
        "schedule": {f"g{n}": str(n)},
        "answer": str(n),
    }


def test_tool_call_is_answered_in_the_wire_shape_and_recorded(door):
    page = door.call()
    assert page.status_code == 200
    assert page.json() == {"type": "function_call_output", "call_id": "call_1", "id": "fc_call_1", "output": "0"}
    row = GatewayCall.objects.get()
    assert (row.state, row.result, row.name) == ("done", "0", "lookup")


def test_arguments_may_come_as_an_object(door):
    assert door.call(arguments={"good": "g0"}).json()["output"] == "0"


def test_grade_makes_a_rollout_like_our_own(door):
    door.call()
    page = door.grade()
    assert page.json() == {"score": 1.0}
    rollout = Rollout.objects.get()
    assert (rollout.status, rollout.stop_reason, rollout.reward, rollout.passed) == ("done", "answered", 1.0, True)
    assert (rollout.trace_id, rollout.group_key, rollout.item.key) == ("trace_1", "item-0", "item-0")
    assert (rollout.tool_path, rollout.n_tool_calls, rollout.answer) == ("lookup>answer", 1, "0")
    first, last = rollout.steps.order_by("index")
    assert first.tool_calls[0]["result"] == "0"
    assert last.text == "0"


def test_retries_are_answered_from_the_record(door, grader):
    first = door.call()
    assert [door.call().json() for _ in range(3)] == [first.json()] * 3
    assert [door.grade().json() for _ in range(3)] == [{"score": 1.0}] * 3
    assert GatewayCall.objects.count() == 2
    assert len(grader.graded) == 1
    assert Rollout.objects.count() == 1
    assert Step.objects.count() == 2


def test_same_call_id_with_other_words_is_another_call(door):
    assert door.call(good="g0").json()["output"] == "0"
    assert door.call(good="none").json()["output"] == "no entry for none"
    assert door.call(call_id="", good="g0").json()["output"] == "0"
    assert GatewayCall.objects.count() == 3


def test_call_that_comes_after_the_grade_is_not_lost(door):
    door.call(call_id="a")
    door.grade(output_tools=[{"id": "b"}, {"id": "a"}])
    door.call(call_id="b", good="late")
    rollout = Rollout.objects.get()
    names = [call["id"] for step in rollout.steps.order_by("index") for call in step.tool_calls]
    assert names == ["b", "a"]
    assert rollout.n_tool_calls == 2
    assert rollout.reward == 1.0


def test_rollouts_of_one_item_are_numbered(door):
    for number in range(3):
        door.grade(trace=f"trace_{number}")
    assert sorted(Rollout.objects.values_list("group_key", "sample_index")) == [("item-0", n) for n in range(3)]


def test_unknown_item_is_kept_under_a_key_of_its_own(door):
    body = {"sample": {"output_text": "x"}, "item": {"id": "q-7", "answer": "x"}, "trace_id": "t"}
    assert door.post("grader", body).json() == {"score": 1.0}
    assert Rollout.objects.get().group_key == "q-7"
    assert Rollout.objects.get().item is None


def test_bad_call_of_the_model_is_answered_as_text(door):
    page = door.call(arguments='{"good": ')
    assert page.status_code == 200
    assert "not valid JSON" in page.json()["output"]
    assert "no tool named" in door.call(name="oracle", call_id="c2").json()["output"]


def test_ungraded_sample_is_a_5xx_and_graded_on_the_retry(door, grader):
    grader.answers = {"0": Grade(None, details="the judge was silent")}
    assert door.grade().status_code == 503
    assert Rollout.objects.get().stop_reason == "grader_failed"
    grader.answers = {}
    assert door.grade().json() == {"score": 1.0}
    assert Rollout.objects.get().reward == 1.0


def test_failing_tool_is_a_5xx_and_run_again_on_the_retry(door, member):
    with ToolServer(lambda call: "found") as server:
        server.script = [Reply(500)]
        spec = {"name": "lookup", "parameters": {}, "transport": "http", "config": {"server_url": server.url}}
        version = door.gateway.batch.agent_version
        AgentVersion.objects.filter(pk=version.pk).update(tools=[spec])
        failed = door.call()
        assert failed.status_code == 503
        assert "status 500" in failed.json()["error"]["message"]
        assert len(server.requests) == 1
        assert door.call().json()["output"] == "found"
    assert GatewayCall.objects.get().attempt == 2


def test_tool_of_an_mcp_server_answers_through_the_gateway(door):
    pytest.importorskip("mcp")
    with mcp_server() as address:
        spec = {"name": "lookup", "parameters": {}, "transport": "mcp", "config": {"url": address, "tool": "rate"}}
        AgentVersion.objects.filter(pk=door.gateway.batch.agent_version_id).update(tools=[spec])
        assert door.call(good="tea").json()["output"] == "tea: 4"
        assert door.call(call_id="call_2", good="salt").json()["output"] == "salt: 4"


def test_call_whose_worker_died_is_taken_over(door):
    door.call()
    GatewayCall.objects.update(state="running", result="", lease_until=timezone.now() - timedelta(seconds=1))
    assert door.call().json()["output"] == "0"


def test_call_that_runs_elsewhere_is_waited_for_then_asked_to_come_again(door, monkeypatch):
    monkeypatch.setattr(gateway, "WAIT_SECONDS", 0.1)
    door.call()
    GatewayCall.objects.update(state="running", lease_until=timezone.now() + timedelta(seconds=60))
    assert door.call().status_code == 503


@pytest.mark.parametrize(
    "what, body, status",
    [
        ("tool", b"{oops", 400),
        ("tool", [], 400),
        ("tool", {"name": "lookup"}, 400),
        ("grader", {"trace_id": "x" * 65}, 400),
        ("tool", b" " * 1_000_001, 413),
    ],
)
def test_what_is_no_call_is_refused_in_words(door, what, body, status):
    page = door.post(what, body)
    assert page.status_code == status
    assert page.json()["error"]["message"]


def test_unknown_and_closed_doors_look_alike(door, member):
    wrong = Client().post("/gateway/rfts-wrong/tool", "{}", content_type="application/json")
    gateway.gateway_close(actor=member, gateway=door.gateway)
    closed = door.call()
    assert (wrong.status_code, closed.status_code) == (404, 404)
    assert wrong.content == closed.content


def test_gateway_is_opened_once_and_its_secret_is_sealed(door, member):
    again = gateway.gateway_open(actor=member, batch=door.gateway.batch)
    assert again == door.gateway
    secret = door.addresses.tool.split("/")[-2]
    assert secret not in str(list(type(again).objects.values()))
    assert gateway.gateway_get(secret) == again


def test_gateway_by_a_viewer_or_without_a_grader_is_refused(viewer, member, batch_of):
    batch = batch_of(kind="import", source="x", queue=False, grader_version=None)
    with pytest.raises(NotAllowed):
        gateway.gateway_open(actor=viewer, batch=batch)
    with pytest.raises(UserError):
        gateway.gateway_open(actor=member, batch=batch)


def test_sample_that_lists_the_last_turn_alone_leaves_the_others_where_they_came(door):
    for call_id in "abc":
        door.call(call_id=call_id, good=call_id)
    door.grade(output_tools=[{"id": "c"}])
    steps = Rollout.objects.get().steps.order_by("index")
    assert [call["id"] for step in steps for call in step.tool_calls] == ["a", "b", "c"]


def test_trace_without_a_grade_is_a_rollout_once_the_door_is_closed(door, member):
    door.call(n=2)
    assert not Rollout.objects.exists()
    gateway.gateway_close(actor=member, gateway=door.gateway)
    rollout = Rollout.objects.get()
    assert (rollout.status, rollout.stop_reason, rollout.reward) == ("cancelled", "cancelled", None)
    assert (rollout.item.key, rollout.tool_path, rollout.n_tool_calls) == ("item-2", "lookup", 1)
    assert "never asked for a grade" in rollout.error


def test_trace_whose_tool_failed_for_good_says_so(door, member):
    spec = {"name": "lookup", "parameters": {}, "transport": "http", "config": {"server_url": "http://127.0.0.1:9/"}}
    door.call()
    AgentVersion.objects.filter(pk=door.gateway.batch.agent_version_id).update(tools=[spec])
    assert door.call(call_id="call_2").status_code == 503
    gateway.gateway_close(actor=member, gateway=door.gateway)
    rollout = Rollout.objects.get()
    assert (rollout.status, rollout.stop_reason, rollout.n_tool_calls) == ("failed", "tool_failed", 2)
    assert "lookup" in rollout.error
    last = rollout.steps.order_by("index").last().tool_calls[0]
    assert (last["is_error"], last["notes"]) == (True, ["failed at try 1"])


def test_silent_trace_is_given_up_and_its_late_grade_still_counts(door):
    door.call()
    assert gateway.traces_give_up() == 0
    GatewayCall.objects.update(started_at=timezone.now() - gateway.SILENCE - timedelta(seconds=1))
    assert gateway.traces_give_up() == 1
    given_up = Rollout.objects.get()
    assert (given_up.status, given_up.reward) == ("cancelled", None)
    assert gateway.traces_give_up() == 0
    assert door.grade().json() == {"score": 1.0}
    rollout = Rollout.objects.get()
    assert (rollout.pk, rollout.status, rollout.reward, rollout.error) == (given_up.pk, "done", 1.0, "")


def test_judges_of_a_gateway_are_booked_once_a_grade(door, grader):
    used = {"judge-mini": {"prompt_tokens": 900, "completion_tokens": 40}}
    grader.answers = {"0": Grade(0.5, usage=used)}
    door.call()
    assert [door.grade().status_code for _ in range(3)] == [200] * 3
    booked = UsageRecord.objects.filter(batch_source="ftjob-hosted").values_list("category", "unit", "quantity")
    assert sorted(booked) == [("judge", "input_token", 900), ("judge", "output_token", 40)]


def test_gateway_of_an_external_trainer_is_opened_and_closed_by_command(batch_of, member, grader, monkeypatch):
    monkeypatch.setattr(gateway_loop, "grader_compiled", lambda version: grader)
    gateway_loop._graders.clear()
    parts = batch_of(kind="import", source="x", queue=False)
    named = [f"--agent={parts.agent_version.public_id}", "--grader=exact", "--base=https://studio.example.com"]

    def told(*options: str) -> dict:
        out = io.StringIO()
        call_command("gateway_open", "verl-7", f"--team={member.team.slug}", *options, stdout=out)
        return json.loads(out.getvalue())

    opened = told(*named)
    assert told(*named) == opened
    secret = opened["tool"].split("/")[-2]
    batch = gateway.gateway_get(secret).batch
    assert (batch.source, batch.policy_label) == ("gateway-verl-7", "verl-7")
    body = {"sample": {"output_text": "0"}, "item": item(0), "trace_id": "t-1"}
    path = opened["grader"].removeprefix("https://studio.example.com")
    assert Client().post(path, json.dumps(body), content_type="application/json").json() == {"score": 1.0}
    assert told("--close") == {"source": "gateway-verl-7", "rollouts": 1}
    with pytest.raises(CommandError, match="was closed"):
        told(*named)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--team=nowhere"], "no team with the slug nowhere"),
        (["--base=https://x"], "needs --agent and --grader"),
        ([], "--base"),
        (["--close"], "There is no gateway verl-7"),
        (["--base=https://x", "--agent=clerk", "--grader=exact"], "There is no agent clerk"),
    ],
)
def test_gateway_command_says_what_is_missing(member, options, words):
    team = [] if any(option.startswith("--team") for option in options) else [f"--team={member.team.slug}"]
    with pytest.raises(CommandError, match=words):
        call_command("gateway_open", "verl-7", *team, *options)


@pytest.mark.django_db(transaction=True)
def test_storm_of_500_rollouts_loses_and_doubles_nothing(door, grader):
    """All start together; calls are repeated and shuffled, some arriving after the grade."""
    draw = random.Random(7)
    posts: queue.SimpleQueue = queue.SimpleQueue()
    shuffled = []
    for n in range(500):
        trace = f"trace_{n:04d}"
        mine = [("call", trace, f"c{k}", n % 4) for k in range(1 + n % 2)] + [("grade", trace, "", n % 4)]
        mine += draw.sample(mine, n % 4 // 2)
        draw.shuffle(mine)
        shuffled += mine
    draw.shuffle(shuffled)
    for post in shuffled:
        posts.put(post)
    wrong: list = []
    together = threading.Barrier(16)

    def send(post) -> None:
        what, trace, call_id, n = post
        for _ in range(4):  # the trainer's retries
            page = door.call(trace, call_id, f"g{n}", n) if what == "call" else door.grade(trace, str(n), n)
            if page.status_code == 200:
                return
        wrong.append((post, page.status_code, page.content))

    def send_all() -> None:
        together.wait()
        try:
            while True:
                send(posts.get_nowait())
        except queue.Empty:
            pass
        finally:
            connections.close_all()

    with ThreadPoolExecutor(16) as pool:
        for sent in [pool.submit(send_all) for _ in range(16)]:
            sent.result()
    assert wrong == []
    assert GatewayCall.objects.filter(state="done").count() == GatewayCall.objects.count() == 1250
    assert Rollout.objects.count() == 500
    assert set(Rollout.objects.values_list("reward", "status")) == {(1.0, "done")}
    calls = Rollout.objects.values_list("extra__trace", "n_tool_calls")
    assert all(found == 1 + int(trace[-1]) % 2 for trace, found in calls)
    assert len(grader.graded) == len(set(grader.graded)) == 500
    assert Step.objects.filter(rollout__isnull=False, tool_calls=[]).count() == 500
