"""`manage.py serve` as a person runs it, on a data folder of its own."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from rftstudio.ops import processes
from tests.services.conftest import ROOT, clean_env, wait_for

PROGRAMS = ("broker", "web", "worker-rollouts", "worker-training", "beat")


class Served:
    """One running `serve`."""

    def __init__(self, var_dir: Path, **env: str) -> None:
        self.var_dir = var_dir
        self.env = clean_env(STUDIO_VAR_DIR=str(var_dir), STUDIO_PORT=str(_free_port()), **env)
        self._out = var_dir.parent / f"serve-{time.monotonic_ns()}.out"
        with self._out.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve"], cwd=ROOT, env=self.env, stdout=out, stderr=out
            )
        self.supervisor = processes.process_identity(self.process.pid)
        said = wait_for(lambda: re.search(r"Studio is at (\S+)", self.said()), 120, f"serve: {self.said()}")
        self.url = said[1]
        wait_for(lambda: all(self.one(name) for name in PROGRAMS), 60, "all programs")

    def said(self) -> str:
        return self._out.read_text()

    def one(self, name: str) -> processes.Identity | None:
        return processes.pid_file_read(self.var_dir / "run" / f"{name}.pid")

    def everyone(self) -> list[processes.Identity]:
        """All processes that bear this supervisor's name, children of children included."""
        mark = f"{processes.SUPERVISOR_PID}={self.supervisor['pid']}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(processes.process_identity(int(folder.name)))
            except OSError:
                continue
        return found

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=90)


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]
