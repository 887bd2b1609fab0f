"""The processes behind sandbox.py: the zygote that forks workers, and one confined worker. Portable."""

import ast
import json
import math
import os
import secrets
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from graders import sandbox_lock
from graders.failures import SandboxUnavailable

WORKER = Path(__file__).with_name("sandbox_worker.py")
REPLY_LIMIT = 1 << 20
START_SECONDS = 60.0
LOAD_SECONDS = 30.0  # for imports before the lock, which are not the grader's own time


class PythonFailed(Exception):
    """The grader's own code failed; `details` is for its author."""

    def __init__(self, details: str, *, kind: str, trace: str = "", line: int | None = None, output: str = "") -> None:
        super().__init__(details)
        self.details = details
        self.kind = kind
        self.trace = trace
        self.line = line
        self.output = output


@dataclass(frozen=True)
class PythonLimits:
    """What one call may use."""

    seconds: float = 30.0
    memory_bytes: int = 1 << 30
    cpu_seconds: int = 3600


@dataclass
class PythonAnswer:
    """What `grade` returned, and what `grade_steps` returned when the source has one."""

    value: float
    steps: list[float | None] = field(default_factory=list)
    output: str = ""


class Home(Protocol):
    """Where workers come from: it starts them on two pipe ends and ends them."""

    def fork(self, request_fd: int, reply_fd: int, limits: PythonLimits) -> int: ...

    def kill(self, pid: int) -> None: ...

    def is_alive(self) -> bool: ...

    def close(self) -> None: ...

    def forget(self) -> None: ...


class Worker:
    """One confined process that has loaded one source."""

    def __init__(self, home: "Home", key: tuple, limits: PythonLimits) -> None:
        self.key = key
        self.home = home
        self.calls = 0
        self.layers: dict[str, Any] = {}
        self.idle_since = 0.0
        self._nonce = secrets.token_hex(8)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        os.set_blocking(self._out, False)
        self._readable = select.poll()
        self._readable.register(self._in, select.POLLIN | select.POLLHUP)
        try:
            self.pid = home.fork(theirs_in, theirs_out, limits)
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def load(self, source: str, limits: PythonLimits) -> None:
        reply = self._exchange({"source": source, "imports": imports_of(source)}, limits.seconds + LOAD_SECONDS, limits)
        if "lock_failed" in reply:
            raise SandboxUnavailable(f"A grader process could not be locked: {reply['lock_failed']}.")
        self.layers = reply.get("layers", {})
        _raise_failure(reply)

    def call(self, sample: dict[str, Any], item: dict[str, Any], limits: PythonLimits) -> PythonAnswer:
        reply = self._exchange({"sample": sample, "item": item}, limits.seconds, limits)
        _raise_failure(reply)
        value = reply.get("value")
        if not _is_number(value):
            raise PythonFailed("The grader's answer is not a finite number.", kind="ProtocolError")
        return PythonAnswer(float(value), _finite_steps(reply.get("steps")), str(reply.get("output", "")))

    def is_quiet(self) -> bool:
        """An idle worker has nothing to say; one that speaks or hung up is not used again."""
        return not self._readable.poll(0)

    def close(self) -> None:
        self.home.kill(self.pid)
        self._close_pipes()

    def _close_pipes(self) -> None:
        for fd in (self._in, self._out):
            with suppress(OSError):
                os.close(fd)

    def _exchange(self, message: dict[str, Any], seconds: float, limits: PythonLimits) -> dict[str, Any]:
        self.calls += 1
        message["nonce"] = nonce = f"{self._nonce}{self.calls}"
        body = json.dumps(message, default=str).encode()
        deadline = time.monotonic() + seconds
        try:
            self._write(struct.pack("!I", len(body)) + body, deadline)
            reply = json.loads(self._read(deadline))
        except _TooLate:
            raise PythonFailed(
                f"TimeoutError: the grader ran longer than {limits.seconds:g} s and was stopped.", kind="TimeoutError"
            ) from None
        except _HungUp:
            raise PythonFailed(
                "The grader's process died: it used more than its "
                f"{limits.memory_bytes >> 20} MiB of memory, ended itself, or crashed.",
                kind="ProcessDied",
            ) from None
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict) or reply.get("nonce") != nonce:
            raise PythonFailed("The grader wrote to its own reply channel.", kind="ProtocolError")
        return reply

    def _write(self, data: bytes, deadline: float) -> None:
        try:
            sent = os.write(self._out, data)
            while sent < len(data):
                if not select.select([], [self._out], [], max(0.0, deadline - time.monotonic()))[1]:
                    raise _TooLate
                sent += os.write(self._out, data[sent : sent + 65536])
        except BlockingIOError:
            raise _TooLate from None
        except BrokenPipeError:
            raise _HungUp from None

    def _read(self, deadline: float) -> bytes:
        data = b""
        wanted = 4
        while True:
            if not self._readable.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise _TooLate
            part = os.read(self._in, 65536)
            if not part:
                raise _HungUp
            data += part
            if wanted == 4 and len(data) >= 4:
                wanted = 4 + struct.unpack("!I", data[:4])[0]
                if wanted > REPLY_LIMIT:
                    raise ValueError("too long")
            if wanted > 4 and len(data) >= wanted:
                if len(data) > wanted:
                    raise ValueError("more than one reply")
                return data[4:]


class _TooLate(Exception):
    pass


class _HungUp(Exception):
    pass


def _raise_failure(reply: dict[str, Any]) -> None:
    if "error" in reply:
        raise PythonFailed(
            str(reply["error"]),
            kind=str(reply.get("kind", "Error")),
            trace=str(reply.get("traceback", "")),
            line=reply.get("line"),
            output=str(reply.get("output", "")),
        )


def _finite_steps(steps: Any) -> list[float | None]:
    if not isinstance(steps, list):
        return []
    return [float(mark) if _is_number(mark) else None for mark in steps]


def _is_number(value: Any) -> bool:
    """A worker may write its reply itself: an integer of 400 digits must not raise here."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def imports_of(source: str) -> list[str]:
    """Module names that the source imports, so that a worker can load them before it is locked."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return sorted(names)


class Zygote:
    """The process that forks workers. It sees pipe ends and limits, never a source."""

    def __init__(self) -> None:
        if not sandbox_lock.is_supported():
            raise SandboxUnavailable("This system has no seccomp (Linux on x86_64 or aarch64).")
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        command = [sys.executable, "-s", "-P", str(WORKER), str(theirs.fileno()), str(os.getpid())]
        environment = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
        with theirs:
            self._process = subprocess.Popen(
                command,
                env=environment,
                pass_fds=[theirs.fileno()],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        ours.settimeout(START_SECONDS)
        if self._receive() != b"ready":
            self.close()
            raise SandboxUnavailable("The process that starts Python graders did not come up.")

    def fork(self, request_fd: int, reply_fd: int, limits: PythonLimits) -> int:
        order = json.dumps({"memory": limits.memory_bytes, "cpu": limits.cpu_seconds}).encode()
        with self._lock:
            try:
                socket.send_fds(self._control, [order], [request_fd, reply_fd])
            except OSError as exc:
                raise SandboxUnavailable("The process that starts Python graders is gone.") from exc
            reply = self._receive()
        if not reply:
            raise SandboxUnavailable("The process that starts Python graders is gone.")
        return int(json.loads(reply)["pid"])

    def kill(self, pid: int) -> None:
        with self._lock, suppress(OSError):
            self._control.send(json.dumps({"kill": pid}).encode())

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Hang up; the zygote then ends, and its workers with it."""
        with suppress(OSError):
            self._control.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(2)

    def forget(self) -> None:
        """In a forked child: drop our copies without touching the parent's zygote."""
        with suppress(OSError):
            self._control.close()
        self._process.returncode = 0

    def _receive(self) -> bytes:
        try:
            return self._control.recv(4096)
        except OSError:
            return b""
