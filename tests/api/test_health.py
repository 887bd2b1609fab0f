"""The health door, with a broker in memory."""

import pytest
from django.db import connection

from rftstudio.api import health


@pytest.mark.django_db
def test_healthz_is_well(client):
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "database": "ok", "broker": "ok"}
    assert "no-cache" in answer.headers["Cache-Control"]


@pytest.mark.django_db
@pytest.mark.parametrize("part", ["database", "broker"])
def test_healthz_with_a_part_away_is_503_and_keeps_the_reason_to_itself(client, monkeypatch, part):
    def away():
        raise OSError("password=hunter2 refused")

    monkeypatch.setattr(health, f"_ask_{part}", away)
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert answer.json()[part] == "unavailable"
    assert "hunter2" not in answer.content.decode()


@pytest.mark.django_db
def test_healthz_with_a_broken_database_connection_says_so(client, monkeypatch):
    def refuse(*args, **kwargs):
        raise ConnectionRefusedError

    monkeypatch.setattr(connection, "cursor", refuse)
    assert client.get("/healthz").json()["database"] == "unavailable"


def test_healthz_takes_no_post(client):
    assert client.post("/healthz").status_code == 405
