"""The team's own network: guarded addresses, its own models, real HTTP."""

import json
import socket
import threading
import time
from contextlib import suppress

import pytest

from graders.clients import GraderClients, Unreachable
from graders.grading import compile_grader
from graders.network import GuardedHttp
from graders.selectors import grader_judges, grader_wire_config
from graders.services import grader_compiled, grader_create, grader_version_publish
from graders.types import Sample
from jobs.agents.models import ModelEndpoint
from rftstudio.core.sealed import seal
from tests.fakes.server import HttpServer, Reply

JUDGE = {"type": "score_model", "model": "expert", "input": [{"role": "user", "content": "{{ sample.output_text }}"}]}


def published(actor, config, name="Own"):
    return grader_version_publish(actor=actor, grader=grader_create(actor=actor, name=name, config=config))


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/", "http://169.254.169.254/latest", "http://[::1]/", "http://localhost/"]
)
def test_private_addresses_are_refused(address):
    with pytest.raises(Unreachable) as refusal:
        GuardedHttp(frozenset()).post(address, headers={}, body=b"{}", seconds=2)
    assert refusal.value.may_heal is False


def test_endpoint_grader_speaks_real_http_and_sends_its_header(member, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    with HttpServer(lambda request: Reply.of({"score": 0.25})) as server:
        version = published(member, {"type": "endpoint", "url": server.url, "headers": {"X-Key": "s3cret"}})
        with grader_compiled(version) as grader:
            grade = grader.grade({"a": 1}, Sample(output_text="x"), "trace_9")
    assert grade.reward == 0.25
    assert server.requests[0].headers["x-key"] == "s3cret"
    assert json.loads(server.requests[0].body)["trace_id"] == "trace_9"


@pytest.mark.parametrize(
    "script, reward, said, tries",
    [
        ([Reply(500)] * 3, 0.25, "", 4),
        ([Reply(503)] * 4, None, "it answered 503", 4),
        ([Reply(429)] * 2, 0.25, "", 3),
        ([Reply(cut=True)] * 2, 0.25, "", 3),
        ([Reply(cut=True)] * 4, None, "no answer", 4),
        ([Reply(404)], None, "it answered 404", 1),
        ([Reply.of({"score": 1}, 422)], None, "it answered 422", 1),
        ([Reply(200, b"{broken")], None, "is not JSON", 1),
        ([Reply.of({"score": "high"})], None, "no number", 1),
        ([Reply(200, b'{"score": NaN}')], None, "no number", 1),
        ([Reply(200, b'{"score": 0.1, "score": 0.9}')], 0.9, "", 1),
        ([Reply(200, b'{"score": 1, "pad": "' + b"x" * (1 << 20) + b'"}')], None, "longer than 1 MB", 1),
        ([Reply.of({"score": 1}, seconds=1.0)], 0.25, "", 2),  # given up at the limit, asked again
        ([Reply.of({"score": 1}, seconds=1.0)] * 4, None, "no answer within", 4),
    ],
)
def test_server_written_for_the_hosted_service_misbehaves(monkeypatch, script, reward, said, tries):
    """Each outcome of the reference's limits, over real HTTP; its pauses between tries are not slept."""
    monkeypatch.setattr("graders.kinds.endpoint.SECONDS", 0.2)
    todo = list(script)
    clients = GraderClients(http=GuardedHttp(frozenset({"127.0.0.1"})), sleep=lambda seconds: None)
    with HttpServer(lambda request: todo.pop(0) if todo else Reply.of({"score": 0.25})) as server:
        config = {"type": "endpoint", "url": f"{server.url}/score", "headers": {"X-Key": "CANARY"}}
        grade = compile_grader(config, clients).grade({"a": 1}, Sample(output_text="x"), "trace_9")
        assert len(server.requests) == tries
        assert len({request.body for request in server.requests}) == 1
    assert grade.reward == reward
    assert said in grade.details
    assert bool(grade.errors) == (reward is None)
    assert "CANARY" not in json.dumps(grade.as_dict())


def test_server_that_trickles_is_given_up_at_the_limit():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 1000\r\n\r\n")
                while True:
                    connection.sendall(b" ")
                    time.sleep(0.02)

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(Unreachable, match="no answer within"):
            GuardedHttp(frozenset({"127.0.0.1"})).post(address, headers={}, body=b"{}", seconds=0.3)
        thread.join(5)


def test_redirect_to_a_private_host_is_not_followed(member, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    with HttpServer(lambda request: Reply(302, headers={"Location": "http://169.254.169.254/"})) as server:
        grader = grader_compiled(published(member, {"type": "endpoint", "url": server.url}))
        grade = grader.grade({}, Sample())
    assert grade.reward is None
    assert "redirect" in grade.details
    assert len(server.requests) == 1


def test_judge_is_the_teams_own_model(member, stranger, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    message = {"role": "assistant", "content": "0.5"}
    with HttpServer(lambda request: Reply.of({"choices": [{"message": message}]})) as server:
        for team, key in ((member.team, "sk-ours"), (stranger.team, "sk-theirs")):
            ModelEndpoint.objects.create(
                team=team, name="expert", kind="openai", model="m", base_url=server.url, api_key_sealed=seal(key)
            )
        version = published(member, JUDGE)
        with grader_compiled(version) as grader:
            assert grader.grade({}, Sample(output_text="x")).reward == 0.5
        assert server.requests[0].headers["authorization"] == "Bearer sk-ours"
        told = grader_judges(version)
    assert told["expert"]["headers"]["Authorization"] == "Bearer sk-ours"
    assert grader_wire_config(version)["model"] == "expert"


def test_judge_that_the_team_does_not_have(member):
    version = published(member, JUDGE)
    assert grader_judges(version) == {}
    with grader_compiled(version) as grader:
        assert "no model named expert" in grader.grade({}, Sample(output_text="x")).details
