"""The recording gateway: wire shapes, retries, calls out of order, and 500 rollouts at once."""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.test import Client
from django.utils import timezone

from graders.types import Grade
from jobs.agents.models import AgentVersion
from jobs.rollouts import gateway, gateway_loop
from jobs.rollouts.models import GatewayCall, Rollout, Step
from rftstudio.core.errors import NotAllowed, UserError
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


@pytest.mark.django_db(transaction=True)
def test_storm_of_500_rollouts_loses_and_doubles_nothing(door, grader):
    """All start together; calls are repeated and shuffled, some arriving after the grade."""
    draw = random.Random(7)
    barrier_open = threading.Event()
    posts = []
    for n in range(500):
        trace = f"trace_{n:04d}"
        mine = [("call", trace, f"c{k}", n % 4) for k in range(2)] + [("grade", trace, "", n % 4)]
        mine += [draw.choice(mine)]
        draw.shuffle(mine)
        posts += mine
    draw.shuffle(posts)
    wrong: list = []

    def send(post) -> None:
        barrier_open.wait()
        what, trace, call_id, n = post
        for _ in range(4):  # the trainer's retries
            page = door.call(trace, call_id, f"g{n}", n) if what == "call" else door.grade(trace, str(n), n)
            if page.status_code == 200:
                break
        else:
            wrong.append((post, page.status_code, page.content))
        if connection.in_atomic_block is False:
            connections.close_all()

    with ThreadPoolExecutor(16) as pool:
        sent = [pool.submit(send, post) for post in posts]
        barrier_open.set()
        for future in sent:
            future.result()
    assert wrong == []
    assert GatewayCall.objects.filter(state="done").count() == GatewayCall.objects.count() == 1500
    assert Rollout.objects.count() == 500
    assert set(Rollout.objects.values_list("reward", "n_tool_calls", "status")) == {(1.0, 2, "done")}
    assert len(grader.graded) == len(set(grader.graded)) == 500
    assert Step.objects.filter(rollout__isnull=False, tool_calls=[]).count() == 500
