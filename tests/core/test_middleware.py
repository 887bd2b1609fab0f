"""Request ids, from the proxy or made here."""

import pytest
from structlog.testing import capture_logs

from rftstudio.core import middleware

pytestmark = pytest.mark.django_db


@pytest.fixture
def lines(monkeypatch):
    """Log lines of the middleware, whose logger may have been cached by an earlier test."""
    import structlog

    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as caught:
        monkeypatch.setattr(middleware, "log", structlog.get_logger("studio.request"))
        yield caught


def test_request_without_an_id_gets_one(client, lines):
    answer = client.get("/v1/models?key=typed")
    assert answer["X-Request-ID"].startswith("req_")
    (line,) = lines
    assert line["request_id"] == answer["X-Request-ID"]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/models", 401)
    assert "typed" not in str(line)


@pytest.mark.parametrize("address", ["/invitations/{}/", "/password/MQ/{}/", "/gateway/{}/grader"])
def test_address_that_is_a_right_by_itself_is_not_logged(client, lines, address):
    client.get(address.format("secret-token-1"))
    (line,) = [line for line in lines if line["event"] == "request"]
    assert "secret-token-1" not in str(line)
    assert "[removed]" in line["path"]


def test_request_with_a_good_id_keeps_it(client, lines):
    assert client.get("/v1/models", headers={"x-request-id": "proxy-12345"})["X-Request-ID"] == "proxy-12345"


@pytest.mark.parametrize("bad", ["short", "x" * 65, 'a"b{}\\nforged', "spaces in it"])
def test_request_with_a_bad_id_gets_another(client, lines, bad):
    assert client.get("/v1/models", headers={"x-request-id": bad})["X-Request-ID"].startswith("req_")


def test_health_checks_are_not_logged(client, lines):
    client.get("/healthz")
    assert not [line for line in lines if line.get("event") == "request"]
