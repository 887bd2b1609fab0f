"""HTTP/1.1 over asyncio: one request at a time on a connection, connections kept and used again.

Small on purpose. Rollouts make thousands of short calls a second, and general clients spend more on each than the
network does (rftstudio/bench/rollouts.py: 1.45 ms of CPU a call with the one tried before, 0.21 ms with this, everything
included). Only what a JSON call needs is here: no redirects, cookies, proxies, compression or HTTP/2. Anything odd in
an answer ends its connection.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

MAX_HEAD = 65_536
IDLE_SECONDS = 15.0

#: Opens a connection to a checked address: (protocol factory, host, port, is_tls) → protocol.
Opener = Callable[[Callable[[], "Connection"], str, int, bool], Awaitable["Connection"]]


class BadAnswer(Exception):
    """What came back is not HTTP/1.1, or the connection ended in the middle of it."""


class AnswerTooLarge(Exception):
    """The body passed the limit; the rest was not read."""


@dataclass
class RawAnswer:
    status: int
    headers: dict[str, str]  # names in lower case; of repeated ones the last
    body: bytes


class Connection(asyncio.Protocol):
    """One connection and the answer it is reading."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_open = False
        self.idle_since = 0.0
        self._waiter: asyncio.Future[RawAnswer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._waiter and not self._waiter.done():
            if not exc and self._reader.ends_with_connection:
                self._waiter.set_result(self._reader.answer())
            else:
                self._waiter.set_exception(BadAnswer("the connection ended before the answer"))

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.close()  # nobody asked: the connection is out of step
            return
        try:
            if self._reader.feed(data):
                self._waiter.set_result(self._reader.answer())
        except (BadAnswer, AnswerTooLarge) as exc:
            self._waiter.set_exception(exc)
            self.close()

    def close(self) -> None:
        self.is_open = False
        if self.transport is not None:
            self.transport.abort()

    async def exchange(self, head: bytes, body: bytes, *, max_bytes: int) -> RawAnswer:
        """Send one request and read its answer whole. A call that is given up closes the connection."""
        self._reader = _Reader(max_bytes)
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            self.transport.write(head + body)
            answer = await self._waiter
        except BaseException:
            self.close()
            raise
        if not self._reader.is_reusable:
            self.close()
        return answer


class _Reader:
    """Reads one answer from the bytes that arrive."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.is_reusable = False
        self.ends_with_connection = False
        self._buffer = bytearray()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._length: int | None = None
        self._chunks: _Chunks | None = None

    def answer(self) -> RawAnswer:
        body = self._chunks.body if self._chunks else self._buffer
        return RawAnswer(self._status, self._headers, bytes(body))

    def feed(self, data: bytes) -> bool:
        """Take bytes; True when the answer is whole."""
        self._buffer += data
        while not self._status:
            if not self._read_head():
                return False
        if self._chunks is not None:
            return self._feed_chunks()
        if len(self._buffer) > self.max_bytes:
            raise AnswerTooLarge
        if self._length is None:
            return False
        if len(self._buffer) > self._length:
            self.is_reusable = False  # bytes beyond the answer: out of step
            del self._buffer[self._length :]
        return len(self._buffer) >= self._length

    def _feed_chunks(self) -> bool:
        done = self._chunks.feed(self._buffer)
        if len(self._chunks.body) > self.max_bytes:
            raise AnswerTooLarge
        if done and self._buffer:
            self.is_reusable = False
        return done

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                raise BadAnswer("the head is too long")
            return False
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        version, _, rest = lines[0].partition(" ")
        code = rest[:3]
        if version not in {"HTTP/1.1", "HTTP/1.0"} or not code.isdecimal():
            raise BadAnswer("this is not HTTP")
        if 100 <= int(code) < 200:
            return bool(self._buffer)  # an interim answer; the real one follows
        self._read_headers(lines[1:])
        self._status = int(code)
        self._choose_body(keeps=version == "HTTP/1.1")
        return True

    def _read_headers(self, lines: list[str]) -> None:
        headers = self._headers
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise BadAnswer("a header cannot be read")
            name, value = name.lower(), value.strip()
            if name == "content-length" and headers.get(name, value) != value:
                raise BadAnswer("two lengths")
            headers[name] = value

    def _choose_body(self, *, keeps: bool) -> None:
        headers = self._headers
        self.is_reusable = keeps and "close" not in headers.get("connection", "").lower()
        coding = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        if self._status in {204, 304}:
            self._length = 0
        elif coding:
            if coding != "chunked":
                raise BadAnswer("an unknown transfer coding")
            self.is_reusable = self.is_reusable and length is None
            self._chunks = _Chunks()
        elif length is not None:
            if not length.isdecimal():
                raise BadAnswer("a length that is none")
            self._length = int(length)
            if self._length > self.max_bytes:
                raise AnswerTooLarge
        else:
            self.is_reusable, self.ends_with_connection = False, True


class _Chunks:
    """A chunked body."""

    def __init__(self) -> None:
        self.body = bytearray()
        self._left = 0  # bytes of the present chunk, its line end included
        self._in_trailers = False

    def feed(self, buffer: bytearray) -> bool:
        while buffer:
            if self._left > 2:
                taken = min(self._left - 2, len(buffer))
                self.body += buffer[:taken]
                del buffer[:taken]
                self._left -= taken
                continue
            end = buffer.find(b"\r\n")
            if end < 0:
                if len(buffer) > MAX_HEAD:
                    raise BadAnswer("a chunk line is too long")
                return False
            line = bytes(buffer[:end])
            del buffer[: end + 2]
            if self._left:
                if line:
                    raise BadAnswer("a chunk is longer than it says")
                self._left = 0
            elif self._in_trailers:
                if not line:
                    return True
            else:
                self._start_chunk(line)
        return False

    def _start_chunk(self, line: bytes) -> None:
        size = line.partition(b";")[0].strip()
        if not size or len(size) > 15 or any(byte not in b"0123456789abcdefABCDEF" for byte in size):
            raise BadAnswer("a chunk size that is none")
        self._left = int(size, 16)
        if self._left:
            self._left += 2
        else:
            self._in_trailers = True


class Pool:
    """Connections by origin. Belongs to one event loop."""

    def __init__(self, opener: Opener, *, max_connections: int) -> None:
        self._opener = opener
        self._gate = asyncio.Semaphore(max_connections)
        self._idle: dict[tuple[str, int, bool], list[Connection]] = defaultdict(list)

    async def exchange(self, origin: tuple[str, int, bool], head: bytes, body: bytes, *, max_bytes: int) -> RawAnswer:
        async with self._gate:
            connection = self._take(origin) or await self._opener(Connection, *origin)
            answer = await connection.exchange(head, body, max_bytes=max_bytes)
            if connection.is_open:
                connection.idle_since = time.monotonic()
                self._idle[origin].append(connection)
            return answer

    def _take(self, origin: tuple[str, int, bool]) -> Connection | None:
        idle = self._idle[origin]
        oldest = time.monotonic() - IDLE_SECONDS
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
            idle.clear()


def request_head(method: str, target: str, headers: list[tuple[str, str]]) -> bytes:
    """The request's first lines. Raises ValueError for a header or target that would break out of its line."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if any(bad in line for line in lines for bad in "\r\n\x00") or any(not name or ":" in name for name, _ in headers):
        raise ValueError("a header or the address holds a line break")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
