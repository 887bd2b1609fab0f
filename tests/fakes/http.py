"""An HTTP client without a network: each post is answered by a function, or by the next of a list of answers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class FakeAnswer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    reason: str = ""


@dataclass
class Posted:
    url: str
    payload: Any
    body: bytes
    headers: dict[str, str]
    seconds: float


def answers(payload: Any, status: int = 200, **headers: str) -> FakeAnswer:
    """A JSON answer."""
    return FakeAnswer(status, json.dumps(payload).encode(), {k.replace("_", "-"): v for k, v in headers.items()})


class FakeHttp:
    def __init__(self, *script: FakeAnswer | Callable[[Posted], FakeAnswer]) -> None:
        self.script = list(script)
        self.posts: list[Posted] = []

    async def post(self, url, *, body, headers, seconds, max_bytes) -> FakeAnswer:
        posted = Posted(url, json.loads(body), body, dict(headers), seconds)
        self.posts.append(posted)
        said = self.script[min(len(self.posts), len(self.script)) - 1]
        answer = said(posted) if callable(said) else said
        if len(answer.body) > max_bytes:
            return FakeAnswer(answer.status, fault="too_large")
        return answer
