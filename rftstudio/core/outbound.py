"""Outbound HTTP through one guarded client: tool servers, graders' endpoints, models, webhooks.

Private, loopback, link-local, metadata and other special addresses are refused unless the operator has allowed the
host. A name is resolved once and the connection goes to the very address that was checked, so that a second answer of
the DNS cannot change it. Redirects are not followed but by `get`, which checks each hop. No Django at import time:
the trainer process loads this module too.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from rftstudio.core.errors import UserError
from rftstudio.core.http1 import AnswerTooLarge, BadAnswer, Connection, Pool, request_head

MAX_BYTES = 1_000_000
MAX_REDIRECTS = 3
CONNECT_SECONDS = 10.0
#: Ranges that some `ipaddress` calls global although they lead inside or nowhere. NAT64, 6to4, Teredo and SIIT carry an
#: IPv4 address; 192.0.0.192 and 168.63.129.16 are what two clouds answer their own machines on.
_INSIDE = [
    ipaddress.ip_network(text)
    for text in (
        "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::ffff:0:0:0/96", "3fff::/20", "5f00::/16",
        "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32",
    )
]  # fmt: skip
_LOCAL_NAMES = (".localhost", ".localdomain", ".internal", ".local")


class AddressRefused(UserError):
    """The address is not one that Studio may call."""

    code = "address_refused"


def allowed_hosts() -> frozenset[str]:
    """Hosts the operator has opened although they are private (`STUDIO_ALLOWED_PRIVATE_HOSTS`)."""
    from django.conf import settings

    return frozenset(host.lower() for host in settings.STUDIO_ALLOWED_PRIVATE_HOSTS)


def is_public(address: str) -> bool:
    """Whether an IP address is on the public internet, whatever notation hides it."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            ip = ip.ipv4_mapped
        elif int(ip) < 2**32:
            return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _INSIDE)


def check_url(url: str, *, allowed: Iterable[str] = (), where: str = "server_url") -> None:
    """Raise AddressRefused for an address that can be seen to be wrong without asking the DNS: used when saving."""
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError as exc:
        raise AddressRefused("This is not an address.", where=where, fix="Write https://host/path.") from exc
    if split.scheme not in {"http", "https"} or not split.hostname:
        raise AddressRefused(
            "Only http and https addresses can be called.", where=where, fix="Write https://host/path."
        )
    if split.username or split.password:
        raise AddressRefused(
            "The address holds a user name or password.", where=where, fix="Put credentials into a header."
        )
    if port == 0:
        raise AddressRefused("Port 0 cannot be called.", where=where, fix="Leave the port out, or correct it.")
    host = split.hostname.lower().rstrip(".")
    if host in allowed:
        return
    plain = _plain_host(host)
    if not plain:
        raise AddressRefused(f"“{host}” is no host name.", where=where, fix="Write https://host/path.")
    literal = _literal_ip(plain)
    is_inside = not is_public(literal) if literal else "." not in plain or plain.endswith(_LOCAL_NAMES)
    if is_inside:
        raise _refused(host, where)


def _plain_host(host: str) -> str:
    """The host as the resolver will read it: full-width digits and ideographic dots become plain ones. Empty: no name."""
    if ":" in host:
        return host
    try:
        plain = host.encode("idna").decode().rstrip(".")
    except UnicodeError:
        return ""
    return plain if re.fullmatch(r"[a-z0-9._-]+", plain) else ""


def _literal_ip(host: str) -> str:
    """The IP address that a host text means, in any notation the resolver would take (127.1, 0x7f000001, …)."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return ""


def _refused(host: str, where: str = "server_url") -> AddressRefused:
    return AddressRefused(
        f"{host} is an address inside this network; Studio does not call those.",
        where=where,
        fix="Use a public address, or have the operator add the host to STUDIO_ALLOWED_PRIVATE_HOSTS.",
    )


def checked_addresses(host: str, found: Iterable[str], *, allowed: Iterable[str] = ()) -> list[str]:
    """The addresses of a host, if all of them may be called. One private address among public ones refuses all."""
    addresses = list(dict.fromkeys(found))
    if host.lower().rstrip(".") not in allowed and not all(is_public(address) for address in addresses):
        raise _refused(host)
    return addresses


@dataclass
class Answer:
    """What came back. A fault of the network is an answer too: status 0 and a `fault`."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""  # timeout, unreachable, refused, too_large
    reason: str = ""  # in words, without address parameters or headers

    @property
    def is_ok(self) -> bool:
        return not self.fault and 200 <= self.status < 300


class OutboundClient:
    """Asynchronous client with a connection pool; belongs to one event loop. Use as `async with`."""

    def __init__(self, *, allowed: Iterable[str] = (), max_connections: int = 256) -> None:
        self.allowed = frozenset(host.lower() for host in allowed)
        self._pool = Pool(self._open, max_connections=max_connections)
        self._origins: dict[tuple[str, str], tuple[str, int, bool]] = {}
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> "OutboundClient":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self._pool.close()

    async def post(
        self,
        url: str,
        *,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        seconds: float = 60.0,
        max_bytes: int = MAX_BYTES,
    ) -> Answer:
        """POST and read the answer whole. Never raises for what the network or the other side does."""
        return await self._send("POST", url, body, headers or {}, seconds, max_bytes)

    async def get(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = 60.0,
        max_bytes: int = MAX_BYTES,
    ) -> Answer:
        """GET, following up to three redirects, each checked anew; headers do not follow to another host."""
        sent = dict(headers or {})
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send("GET", url, b"", sent, seconds, max_bytes)
            location = answer.headers.get("location", "")
            if answer.status not in {301, 302, 303, 307, 308} or not location:
                return answer
            target = urljoin(url, location)
            if urlsplit(target).netloc != urlsplit(url).netloc:
                sent = {}
            url = target
        return Answer(0, fault="refused", reason="it redirects too often")

    async def _send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], seconds: float, max_bytes: int
    ) -> Answer:
        try:
            origin, head = self._prepare(method, url, body, headers)
            async with asyncio.timeout(seconds):
                raw = await self._pool.exchange(origin, head, body, max_bytes=max_bytes)
            return Answer(raw.status, raw.body, raw.headers)
        except AddressRefused as exc:
            return Answer(0, fault="refused", reason=exc.message)
        except AnswerTooLarge:
            return Answer(0, fault="too_large", reason=f"the answer is larger than {max_bytes} bytes")
        except TimeoutError:
            return Answer(0, fault="timeout", reason=f"no answer within {seconds:.3g} s")
        except BadAnswer as exc:
            return Answer(0, fault="unreachable", reason=str(exc))
        except OSError as exc:  # TLS errors are OSErrors too
            return Answer(0, fault="unreachable", reason=f"the connection failed ({type(exc).__name__})")
        except ValueError as exc:
            return Answer(0, fault="refused", reason=f"the call cannot be sent ({exc})")

    def _prepare(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[tuple[str, int, bool], bytes]:
        split = urlsplit(url)
        known = self._origins.get((split.scheme, split.netloc))
        if known is None:  # checked once for each origin and client
            check_url(url, allowed=self.allowed)
            is_tls = split.scheme == "https"
            known = (split.hostname or "", split.port or (443 if is_tls else 80), is_tls)
            self._origins[split.scheme, split.netloc] = known
        target = quote(split.path or "/", safe="/%:@!$&'()*+,;=~-._")
        if split.query:
            target += "?" + quote(split.query, safe="/%:@!$&'()*+,;=~-._?")
        lines = [("Host", split.netloc), ("Accept", "application/json"), ("Accept-Encoding", "identity")]
        lines += [(name, value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS]
        if method == "POST":
            lines.append(("Content-Length", str(len(body))))
        return known, request_head(method, target, lines)

    async def _open(self, factory: Callable[[], Connection], host: str, port: int, is_tls: bool) -> Connection:
        """Resolve, check, and connect to the very address that was checked. TLS verifies the host's own name."""
        loop = asyncio.get_running_loop()
        rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = checked_addresses(host, (row[4][0] for row in rows), allowed=self.allowed)
        options = {"ssl": self._tls_context(), "server_hostname": host} if is_tls else {}
        fault: OSError = OSError(f"{host} has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, connection = await loop.create_connection(factory, address, port, **options)
                return connection
            except TimeoutError:
                fault = OSError(f"{host} does not accept connections")
            except OSError as exc:
                fault = exc
        raise fault

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


_OWN_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "accept"}


def sync_client(*, allowed: Iterable[str] = (), seconds: float = 60.0, **options: Any) -> Any:
    """A synchronous httpx2.Client behind the same guard, for code in threads and for the openai SDK's http_client."""
    import httpcore2
    import httpx2

    opened = _quiet(allowed)

    class Guarded(httpcore2.SyncBackend):
        def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
            try:
                rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as exc:
                raise httpcore2.ConnectError(f"{host} cannot be resolved") from exc
            fault: Exception = httpcore2.ConnectError(f"{host} has no address")
            for address in checked_addresses(host, (row[4][0] for row in rows), allowed=opened):
                try:
                    return super().connect_tcp(address, port, timeout or CONNECT_SECONDS, local_address, socket_options)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as exc:
                    fault = exc
            raise fault

    class GuardedTransport(httpx2.HTTPTransport):
        def __init__(self) -> None:
            super().__init__(verify=_tls_shared(), trust_env=False)
            self._pool = httpcore2.ConnectionPool(
                ssl_context=_tls_shared(), network_backend=Guarded(), max_connections=64
            )

        def handle_request(self, request):
            check_url(str(request.url), allowed=opened)
            return super().handle_request(request)

    return httpx2.Client(transport=GuardedTransport(), timeout=seconds, trust_env=False, **options)


def async_httpx_client(*, allowed: Iterable[str] = (), seconds: float = 60.0, **options: Any) -> Any:
    """An asynchronous httpx2.AsyncClient behind the same guard, for SDKs that want one (MCP, openai)."""
    import httpcore2
    import httpx2

    opened = _quiet(allowed)

    class Guarded(httpcore2.AnyIOBackend):
        async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
            try:
                rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as exc:
                raise httpcore2.ConnectError(f"{host} cannot be resolved") from exc
            fault: Exception = httpcore2.ConnectError(f"{host} has no address")
            for address in checked_addresses(host, (row[4][0] for row in rows), allowed=opened):
                try:
                    return await super().connect_tcp(
                        address, port, timeout or CONNECT_SECONDS, local_address, socket_options
                    )
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as exc:
                    fault = exc
            raise fault

    class GuardedTransport(httpx2.AsyncHTTPTransport):
        def __init__(self) -> None:
            super().__init__(verify=_tls_shared(), trust_env=False)
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=_tls_shared(), network_backend=Guarded(), max_connections=64
            )

        async def handle_async_request(self, request):
            check_url(str(request.url), allowed=opened)
            return await super().handle_async_request(request)

    return httpx2.AsyncClient(transport=GuardedTransport(), timeout=seconds, trust_env=False, **options)


@cache
def _tls_shared() -> ssl.SSLContext:
    """One for the process: reading the certificates anew for each client costs more than a short conversation."""
    import httpx2

    return httpx2.create_ssl_context()


def _quiet(allowed: Iterable[str]) -> frozenset[str]:
    """The hosts in lower case. On the way the library is kept from logging addresses, whose parameters may be secrets."""
    import logging

    logging.getLogger("httpx2").setLevel(logging.WARNING)
    return frozenset(host.lower() for host in allowed)
