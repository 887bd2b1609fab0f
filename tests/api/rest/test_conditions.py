"""Idempotency keys, ETags, rate limits, and how refusals read."""

import pytest
from django.test import Client
from django.utils import timezone

from datasets.models import Dataset
from rftstudio.api.rest.models import KeptAnswer, RequestCount
from rftstudio.api.rest.once import KEPT, kept_sweep
from rftstudio.teams.models import AuditEvent, Role
from tests.api.rest.conftest import Door, key_of

pytestmark = pytest.mark.django_db

KEY = {"idempotency-key": "3c6f-1"}


# -- idempotency ------------------------------------------------------------------------------------------------------


def test_the_same_request_again_changes_nothing_and_gets_the_same_answer(rest):
    first = rest.post("/api/datasets", {"name": "Tariffs"}, **KEY)
    second = rest.post("/api/datasets", {"name": "Tariffs"}, **KEY)
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    assert "Idempotent-Replayed" not in first
    assert second["Idempotent-Replayed"] == "true"
    assert Dataset.objects.count() == 1
    assert AuditEvent.objects.filter(verb="dataset.created").count() == 1


def test_the_same_key_with_another_body_or_address_is_refused(rest):
    rest.post("/api/datasets", {"name": "Tariffs"}, **KEY)
    for path, body in (("/api/datasets", {"name": "Others"}), ("/api/agents", {"name": "Tariffs"})):
        answer = rest.post(path, body, **KEY)
        assert answer.status_code == 422
        assert answer.json()["code"] == "idempotency_key_reused"
    assert Dataset.objects.count() == 1


def test_what_was_refused_is_not_kept(rest):
    assert rest.post("/api/datasets", {}, **KEY).status_code == 400
    assert not KeptAnswer.objects.exists()
    assert rest.post("/api/datasets", {"name": "Tariffs"}, **KEY).status_code == 201


def test_two_callers_may_use_the_same_key(rest, team, theirs):
    rest.post("/api/datasets", {"name": "Tariffs"}, **KEY)
    other = Door(key_of(team))
    for door, name in ((theirs, "Theirs"), (other, "Other")):
        answer = door.post("/api/datasets", {"name": name}, **KEY)
        assert answer.status_code == 201
        assert answer.json()["name"] == name


def test_a_secret_in_a_kept_answer_is_sealed_and_replayed(client, owner):
    client.force_login(owner.user, backend="django.contrib.auth.backends.ModelBackend")

    def make():
        headers = {"x-team": owner.team.slug, **KEY}
        return client.post("/api/keys", '{"name": "CI"}', content_type="application/json", headers=headers)

    first, second = make(), make()
    assert first.status_code == 201
    assert first.json()["secret"] == second.json()["secret"]
    assert first.json()["secret"] not in str(KeptAnswer.objects.values().get())


def test_uploads_are_told_apart_by_their_bytes(rest):
    from django.core.files.uploadedfile import SimpleUploadedFile as File

    def send(content: bytes):
        headers = {"authorization": f"Bearer {rest.secret}", **KEY}
        return rest.client.post("/api/files", {"file": File("a.jsonl", content)}, headers=headers)

    first, again = send(b"{}"), send(b"{}")
    assert first.status_code == 201
    assert first.json() == again.json()
    assert send(b"[]").status_code == 422


def test_every_file_of_an_upload_counts(rest):
    from django.core.files.uploadedfile import SimpleUploadedFile as File

    def send(first: bytes):
        headers = {"authorization": f"Bearer {rest.secret}", **KEY}
        return rest.client.post(
            "/api/corpora", {"files": [File("a.txt", first), File("b.txt", b"same")]}, headers=headers
        )

    assert send(b"one").status_code == 201
    assert send(b"two").status_code == 422


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_keys_that_cannot_be_kept_are_refused(rest, key):
    answer = rest.post("/api/datasets", {"name": "Tariffs"}, **{"idempotency-key": key})
    assert answer.status_code == 400
    assert not Dataset.objects.exists()


def test_answers_are_forgotten_after_a_day(rest):
    rest.post("/api/datasets", {"name": "Tariffs"}, **KEY)
    KeptAnswer.objects.update(created_at=timezone.now() - KEPT * 1.1)
    assert rest.post("/api/datasets", {"name": "Second"}, **KEY).json()["name"] == "Second"
    KeptAnswer.objects.update(created_at=timezone.now() - KEPT * 1.1)
    RequestCount.objects.update(minute=1)
    assert kept_sweep() == 1
    assert not RequestCount.objects.exists()


# -- conditions -------------------------------------------------------------------------------------------------------


def test_what_has_not_changed_is_not_sent_again(rest):
    rest.post("/api/datasets", {"name": "Tariffs"})
    first = rest.get("/api/datasets")
    again = rest.get("/api/datasets", **{"if-none-match": first["ETag"]})
    assert again.status_code == 304
    assert again.content == b""
    rest.post("/api/datasets", {"name": "Another"})
    assert rest.get("/api/datasets", **{"if-none-match": first["ETag"]}).status_code == 200


@pytest.fixture
def tool(rest):
    body = {"name": "lookup", "description": "Finds a good.", "parameters": {"type": "object", "properties": {}},
            "transport": "http", "config": {"server_url": "https://tools.example.com/x"}}  # fmt: skip
    return rest.post("/api/tools", body).json()


def test_a_change_of_what_somebody_else_changed_meanwhile_is_refused(rest, tool):
    path = f"/api/tools/{tool['id']}"
    tag = rest.get(path)["ETag"]
    assert rest.patch(path, {"description": "Finds a heading."}, **{"if-match": tag}).status_code == 200
    late = rest.patch(path, {"description": "Finds nothing."}, **{"if-match": tag})
    assert late.status_code == 412
    assert late.json()["code"] == "precondition_failed"
    assert rest.get(path).json()["description"] == "Finds a heading."
    assert rest.patch(path, {"description": "Finds all."}, **{"if-match": "*"}).status_code == 200


# -- rates ------------------------------------------------------------------------------------------------------------


def test_a_key_is_stopped_at_its_limit_and_told_until_when(rest, team, settings):
    settings.STUDIO_API_REQUESTS_PER_MINUTE = 3
    left = [rest.get("/api/me")["RateLimit-Remaining"] for _ in range(3)]
    assert left == ["2", "1", "0"]
    stopped = rest.get("/api/me")
    assert stopped.status_code == 429
    assert 1 <= int(stopped["Retry-After"]) <= 60
    assert stopped["RateLimit-Limit"] == "3"
    assert stopped["Content-Type"] == "application/problem+json"
    assert Door(key_of(team)).get("/api/me").status_code == 200  # another key has its own


def test_both_doors_count_together(rest, settings):
    settings.STUDIO_API_REQUESTS_PER_MINUTE = 1
    assert rest.get("/v1/models")["RateLimit-Remaining"] == "0"
    assert rest.get("/api/me").status_code == 429
    refused = rest.get("/v1/models")
    assert refused.status_code == 429
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert 1 <= int(refused["Retry-After"]) <= 60


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_refusal_is_a_problem_with_what_where_and_how_to_mend_it(rest, tool):
    answer = rest.post("/api/tools", {**{k: tool[k] for k in ("name", "description", "parameters", "transport")},
                                      "config": {"server_url": "https://tools.example.com/x"}})  # fmt: skip
    assert answer.status_code == 409
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert body["type"] == "about:blank"
    assert body["title"] == "Conflict"
    assert body["status"] == 409
    assert body["where"] == "name"
    assert body["fix"] == "Choose another name."
    assert body["request_id"] == answer["X-Request-ID"]


def test_every_fault_of_a_body_is_told_at_its_place(rest):
    answer = rest.post("/api/evaluations", {"dataset_version": "x", "split": "sideways", "sampels": 4})
    assert {error["where"] for error in answer.json()["errors"]} == {"sampels"}
    answer = rest.post("/api/evaluations", {"dataset_version": "x", "split": "sideways"})
    assert {error["where"] for error in answer.json()["errors"]} == {"split", "agent_version", "grader_version"}


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"name": NaN}', 400), (b'{"name": "a\\u0000"}', 400), (b'{"name": "\\ud800"}', 400),
     (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400), (b"\xff", 400)],
)  # fmt: skip
def test_bodies_that_cannot_be_kept_are_refused(rest, body, status):
    headers = {"authorization": f"Bearer {rest.secret}"}
    answer = rest.client.post("/api/datasets", body, content_type="application/json", headers=headers)
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"


def test_other_types_methods_and_addresses_are_refused(rest):
    headers = {"authorization": f"Bearer {rest.secret}"}
    assert rest.client.post("/api/datasets", "name=x", content_type="text/plain", headers=headers).status_code == 415
    assert rest.delete("/api/datasets").status_code == 405
    assert rest.get("/api/datasets/dset-none").status_code == 404
    assert rest.get("/api/datasets/%00").status_code == 404


def test_what_breaks_on_our_side_is_a_problem_without_its_insides(rest, monkeypatch, caplog):
    from datasets import services

    def breaks(**values):
        Dataset.objects.create(team=values["actor"].team, name="half", slug="half")
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(services, "dataset_create", breaks)
    answer = rest.post("/api/datasets", {"name": "x"}, **KEY)
    assert answer.status_code == 500
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "studio_failed"
    assert "hunter2" not in answer.content.decode()
    assert answer.json()["request_id"] in str([record.msg for record in caplog.records])
    assert not Dataset.objects.exists()
    assert not KeptAnswer.objects.exists()


def test_a_session_needs_its_team_and_the_csrf_token(owner):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner.user, backend="django.contrib.auth.backends.ModelBackend")
    assert browser.get("/api/me").status_code == 401
    assert browser.get("/api/me", headers={"x-team": "duty-desk"}).json()["role"] == "owner"
    made = browser.post(
        "/api/datasets", '{"name": "x"}', content_type="application/json", headers={"x-team": "duty-desk"}
    )
    assert made.status_code == 403
    assert made["Content-Type"] == "application/problem+json"


def test_me_names_team_role_and_rights(team):
    door = Door(key_of(team, Role.ENGINEER, scopes=["view", "label"]))
    assert door.get("/api/me").json()["rights"] == ["view", "label"]
