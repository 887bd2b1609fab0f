"""What graders are handed to reach the outside. Portable: the callers bring the network."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from graders.sandbox import Sandbox
from graders.sandbox_process import PythonLimits


@dataclass(frozen=True)
class HttpAnswer:
    """One HTTP answer; redirects are not followed."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case


class Unreachable(Exception):
    """No answer came, or the address is not allowed. `may_heal` is False where asking again cannot help."""

    def __init__(self, message: str, *, may_heal: bool = True) -> None:
        super().__init__(message)
        self.may_heal = may_heal


class HttpClient(Protocol):
    """A guarded POST; raises Unreachable."""

    def post(self, url: str, *, headers: dict[str, str], body: bytes, seconds: float) -> HttpAnswer: ...


@dataclass(frozen=True)
class JudgeEndpoint:
    """Where a judge model answers: an OpenAI-compatible base URL, and a client of its own if it needs one."""

    base_url: str
    model: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    http: "HttpClient | None" = None


@dataclass
class GraderClients:
    """The network and the confinement of one team's graders.

    `owner` keys the warm Python workers: two teams never share one. `judge` answers where a model named in a grader
    lives, or None when the team has no such model.
    """

    owner: str = ""
    http: HttpClient | None = None
    judge: Callable[[str], JudgeEndpoint | None] | None = None
    sandbox: Sandbox | None = None
    python: PythonLimits = field(default_factory=PythonLimits)
    sleep: Callable[[float], Any] | None = None  # between retries; tests pass a no-op
