"""Reading answers byte by byte: every way a body can end, and what is refused."""

import asyncio

import pytest

from rftstudio.core.http1 import AnswerTooLarge, BadAnswer, _Reader, request_head
from rftstudio.core.outbound import OutboundClient

OK = b"HTTP/1.1 200 OK\r\n"


def read(raw: bytes, *, step: int, max_bytes: int = 1000):
    reader = _Reader(max_bytes)
    done = False
    for start in range(0, len(raw), step):
        done = reader.feed(raw[start : start + step])
    return reader, done


@pytest.mark.parametrize("step", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize(
    "raw, status, body, is_reusable",
    [
        (OK + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", True),
        (OK + b"content-length: 0\r\n\r\n", 200, b"", True),
        (OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi", 200, b"hi", False),
        (b"HTTP/1.0 404 No\r\nContent-Length: 2\r\n\r\nhi", 404, b"hi", False),
        (b"HTTP/1.1 204 None\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx", 200, b"x", True),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n",
            200,
            b"abc0123456789",
            True,
        ),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n", 200, b"a", True),
        (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, b"a", False),
        (OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True),
    ],
)
def test_answer_is_read_however_it_arrives(raw, status, body, is_reusable, step):
    reader, done = read(raw, step=step)
    answer = reader.answer()
    assert done
    assert (answer.status, answer.body, reader.is_reusable) == (status, body, is_reusable)


def test_bytes_beyond_the_answer_end_the_connection():
    reader, done = read(OK + b"Content-Length: 2\r\n\r\nhiHTTP/1.1 200", step=10_000)
    assert done
    assert reader.answer().body == b"hi"
    assert not reader.is_reusable


@pytest.mark.parametrize("step", [1, 10_000])
@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"Bad : 1\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        OK + b"Transfer-Encoding: gzip\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"x" * 70_000,
    ],
)
def test_what_is_not_http_is_refused(raw, step):
    with pytest.raises(BadAnswer):
        read(raw, step=step)


@pytest.mark.parametrize(
    "raw",
    [
        OK + b"Content-Length: 1001\r\n\r\n",
        OK + b"\r\n" + b"x" * 1001,
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"3e9\r\n" + b"x" * 1001 + b"\r\n",
    ],
)
def test_answer_above_the_limit_is_refused(raw):
    with pytest.raises(AnswerTooLarge):
        read(raw, step=100)


@pytest.mark.parametrize("headers", [[("X", "a\r\nHost: b")], [("X\r\n", "a")], [("", "a")], [("a:b", "c")]])
def test_header_that_breaks_out_of_its_line_is_refused(headers):
    with pytest.raises(ValueError, match="line break"):
        request_head("GET", "/", headers)


def test_address_cannot_break_out_of_its_line():
    async def once():
        async with OutboundClient(allowed=["127.0.0.1"]) as client:
            return client._prepare("GET", "http://127.0.0.1:1/a b\u00e9?q=x y", b"", {})[1]

    assert asyncio.run(once()).startswith(b"GET /a%20b%C3%A9?q=x%20y HTTP/1.1\r\n")


def test_body_without_a_length_ends_with_the_connection():
    async def main():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK + b"\r\nhalf")
            await writer.drain()
            writer.write(b" and half")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with OutboundClient(allowed=["127.0.0.1"]) as client:
            found = [await client.get(f"http://127.0.0.1:{port}/") for _ in range(2)]
        server.close()
        return found

    assert [answer.body for answer in asyncio.run(main())] == [b"half and half"] * 2


def test_connection_that_the_server_closed_while_idle_is_not_used_again():
    async def main():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK + b"Content-Length: 1\r\n\r\nx")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with OutboundClient(allowed=["127.0.0.1"]) as client:
            statuses = []
            for _ in range(3):
                statuses.append((await client.get(f"http://127.0.0.1:{port}/")).status)
                await asyncio.sleep(0.02)
        server.close()
        return statuses

    assert asyncio.run(main()) == [200, 200, 200]


def test_call_given_up_closes_its_connection():
    closed = []

    async def main():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            closed.append(await reader.read() == b"")

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with OutboundClient(allowed=["127.0.0.1"]) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/", seconds=0.05)
            await asyncio.sleep(0.05)
        server.close()
        return answer.fault

    assert asyncio.run(main()) == "timeout"
    assert closed == [True]
