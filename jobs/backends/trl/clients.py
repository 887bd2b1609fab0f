"""The network of a training run: what tools and graders are handed. Every call goes through Studio's guarded client,
which is loaded only when something calls out: a run with built-in tools needs nothing of the web side.
"""

import os
from collections.abc import Iterable
from typing import Any

from graders.clients import GraderClients, HttpAnswer, JudgeEndpoint, Unreachable
from graders.kinds.endpoint import MAX_BYTES
from jobs.agents.tools.spec import ToolSpec


def allowed_hosts() -> frozenset[str]:
    """Private hosts that the operator has opened, from the same variable as on the web side."""
    names = os.environ.get("STUDIO_ALLOWED_PRIVATE_HOSTS", "")
    return frozenset(name.strip().lower() for name in names.split(",") if name.strip())


def needs_network(tools: Iterable[ToolSpec]) -> bool:
    return any(tool.transport == "http" for tool in tools)


def tool_client() -> Any:
    """For one event loop; use as `async with`."""
    from rftstudio.core.outbound import OutboundClient

    return OutboundClient(allowed=allowed_hosts())


def grader_clients(judges: dict[str, dict[str, Any]], owner: str) -> GraderClients:
    """Endpoint graders call through the guard; judge models are those that the spec names."""
    endpoints = {
        name: JudgeEndpoint(str(told["base_url"]), str(told.get("model", name)), dict(told.get("headers") or {}))
        for name, told in judges.items()
    }
    return GraderClients(owner=owner, http=GraderHttp(), judge=endpoints.get)


class GraderHttp:
    """POST through the guarded client, as graders want it. Connections are made on first use."""

    def __init__(self) -> None:
        self._client: Any = None

    def post(self, url: str, *, headers: dict[str, str], body: bytes, seconds: float) -> HttpAnswer:
        import httpx2

        from rftstudio.core.outbound import AddressRefused, sync_client

        if self._client is None:
            self._client = sync_client(allowed=allowed_hosts())
        try:
            with self._client.stream("POST", url, headers=headers, content=body, timeout=seconds) as answer:
                received = bytearray()
                for chunk in answer.iter_bytes():
                    received += chunk
                    if len(received) > MAX_BYTES:
                        break
                return HttpAnswer(answer.status_code, bytes(received), dict(answer.headers))
        except AddressRefused as exc:
            raise Unreachable(exc.message, may_heal=False) from exc
        except httpx2.TimeoutException as exc:
            raise Unreachable(f"no answer within {seconds:g} s") from exc
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as exc:
            raise Unreachable(f"the connection failed ({type(exc).__name__})") from exc
