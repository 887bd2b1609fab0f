"""The guarded client: which addresses are refused, and what each fault of the network looks like."""

import asyncio
import json
import logging
import socket
from pathlib import Path

import pytest

from rftstudio.core import outbound
from rftstudio.core.outbound import AddressRefused, OutboundClient, check_url, is_public, sync_client
from tests.fakes.server import HttpServer, Reply

CASES = Path(__file__).parents[1] / "data" / "cases" / "inputs"
LOCAL = ["127.0.0.1"]


def post(url, *, allowed=LOCAL, **options):
    async def once():
        async with OutboundClient(allowed=allowed) as client:
            return await client.post(url, body=b"{}", **options)

    return asyncio.run(once())


def get(url, *, allowed=LOCAL, **options):
    async def once():
        async with OutboundClient(allowed=allowed) as client:
            return await client.get(url, **options)

    return asyncio.run(once())


@pytest.mark.parametrize("url", json.loads((CASES / "c126_urls.json").read_text()))
def test_inside_address_is_refused_at_save_and_at_send(url):
    with pytest.raises(AddressRefused):
        check_url(url)
    assert post(url, allowed=[]).fault == "refused"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://017700000001/",
        "http://[::]/",
        "http://[fe80::1%25eth0]/",
        "http://[fd00::1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[::127.0.0.1]/",
        "http://100.64.0.1/",
        "http://172.16.0.1/",
        "http://metadata.google.internal/",
        "http://LOCALHOST./",
        "http://printer.local/",
        "http://metadata/",
        "http://redis:6379/",
        "http://ip6-loopback/",
        "http://localhost.localdomain/",
        "http://192.0.0.192/",
        "http://168.63.129.16/",
        "http://[::ffff:0:127.0.0.1]/",
        "http://①②⑦.⓪.⓪.①/",
        "http://１２７。０。０。１/",
        "http://exa mple.com/",
        "http://x:0/",
        "http://example.com:99999/",
        "//example.com/",
        "http:///x",
        "",
    ],
)
def test_disguised_inside_address_is_refused(url):
    with pytest.raises(AddressRefused):
        check_url(url)


def test_public_address_passes():
    for url in ("https://tools.example.com/run?v=1", "http://8.8.8.8:8080/", "https://[2606:4700::1111]/"):
        check_url(url)


@pytest.mark.parametrize(
    "address, public",
    [("8.8.8.8", True), ("224.0.0.1", False), ("::ffff:8.8.8.8", True), ("::ffff:10.0.0.1", False), ("x", False)],
)
def test_is_public(address, public):
    assert is_public(address) is public


def test_name_that_resolves_inside_is_refused_even_among_public_ones(monkeypatch):
    async def resolve(self, host, port, **options):
        return [(socket.AF_INET, 1, 6, "", ("8.8.8.8", port)), (socket.AF_INET, 1, 6, "", ("10.0.0.7", port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    answer = post("http://rebind.example.com/", allowed=[])
    assert answer.fault == "refused"
    assert "rebind.example.com" in answer.reason


def test_connection_goes_to_the_address_that_was_checked(monkeypatch):
    """A name is looked up once: a second answer of the DNS has no chance."""
    asked = []
    with HttpServer(lambda request: Reply.of({"host": request.headers["host"]})) as server:
        port = int(server.url.rpartition(":")[2])

        async def resolve(self, host, port, **options):
            asked.append(host)
            return [(socket.AF_INET, 1, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
        answer = post(f"http://tools.example.com:{port}/", allowed=["tools.example.com"])
    assert json.loads(answer.body) == {"host": f"tools.example.com:{port}"}
    assert asked.count("tools.example.com") == 1


def test_post_sends_body_and_headers():
    with HttpServer(lambda request: Reply.of({"got": request.json(), "key": request.headers["x-key"]}, 201)) as server:
        answer = post(server.url, headers={"X-Key": "k", "Host": "evil", "Content-Length": "9"})
    assert (answer.status, json.loads(answer.body)) == (201, {"got": {}, "key": "k"})
    assert not answer.fault
    assert answer.is_ok


def test_answer_above_the_limit_is_dropped():
    with HttpServer(lambda request: Reply(200, b"x" * 5000)) as server:
        assert post(server.url, max_bytes=4999).fault == "too_large"
        assert len(post(server.url, max_bytes=5000).body) == 5000


def test_slow_answer_times_out():
    with HttpServer(lambda request: Reply(seconds=5)) as server:
        answer = post(server.url, seconds=0.1)
    assert answer.fault == "timeout"
    assert "0.1 s" in answer.reason


def test_lost_connection_is_unreachable():
    with HttpServer(lambda request: Reply(cut=True)) as server:
        assert post(server.url).fault == "unreachable"
    assert post(server.url).fault == "unreachable"


def test_post_does_not_follow_redirects():
    with HttpServer(lambda request: Reply(307, b"", {"Location": "http://169.254.169.254/"})) as server:
        assert post(server.url).status == 307


def test_get_checks_each_redirect_and_drops_headers_for_another_host():
    def answer(request):
        if request.path == "/inside":
            return Reply(302, b"", {"Location": "http://169.254.169.254/latest"})
        if request.path == "/on":
            return Reply(302, b"", {"Location": "/end"})
        if request.path == "/ever":
            return Reply(302, b"", {"Location": "/ever"})
        return Reply.of({"key": request.headers.get("x-key")})

    with HttpServer(answer) as server:
        assert get(f"{server.url}/inside").fault == "refused"
        assert get(f"{server.url}/ever").reason == "it redirects too often"
        assert json.loads(get(f"{server.url}/on", headers={"X-Key": "k"}).body) == {"key": "k"}


def test_many_posts_share_connections():
    async def many(url):
        async with OutboundClient(allowed=LOCAL) as client:
            return await asyncio.gather(*(client.post(url, body=b"{}") for _ in range(50)))

    with HttpServer(lambda request: Reply.of({}, seconds=0.01)) as server:
        found = asyncio.run(many(server.url))
        assert {answer.status for answer in found} == {200}
        assert server.open_most > 5


def test_header_that_cannot_be_sent_is_an_answer_too():
    assert post("http://127.0.0.1:9/", headers={"X": "a\r\nb"}).fault
    assert post("http://127.0.0.1:9/", headers={"X": "\u20ac"}).fault == "refused"


def test_sync_client_has_the_same_guard_and_logs_no_address(caplog):
    caplog.set_level(logging.INFO)
    with HttpServer(lambda request: Reply.of({"ok": 1})) as server:
        with sync_client(allowed=LOCAL) as client:
            assert client.post(f"{server.url}/?token=CANARY", json={}).json() == {"ok": 1}
        with sync_client() as client, pytest.raises(AddressRefused):
            client.get(server.url)
    assert "CANARY" not in caplog.text


def test_allowed_hosts_come_from_the_settings(settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["Tools.Local"]
    assert outbound.allowed_hosts() == {"tools.local"}
    check_url("http://tools.local/", allowed=outbound.allowed_hosts())
