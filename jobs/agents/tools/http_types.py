"""The HTTP client that tools and policies are handed. Portable: only its shape is said here."""

from collections.abc import Mapping
from typing import Protocol


class HttpAnswer(Protocol):
    """What came back. A fault of the network is an answer too: status 0 and a `fault`."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    fault: str  # "" or timeout, unreachable, refused (the address is not allowed), too_large
    reason: str  # the fault in words for a person, without secrets


class HttpClient(Protocol):
    """`post` never raises for what the other side or the network does."""

    async def post(
        self, url: str, *, body: bytes, headers: Mapping[str, str], seconds: float, max_bytes: int
    ) -> HttpAnswer: ...
