"""Finds or starts the process that serves a local model folder. Portable: standard library only."""

import fcntl
import hashlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.rollouts.engine.types import PolicyError

SERVER = Path(__file__).resolve().with_name("local_server.py")
START_SECONDS = 120.0  # importing torch on a busy machine


def ensure_server(model_path: Path | str, *, run_dir: Path, idle_seconds: float = 300.0) -> str:
    """The base URL (`http://127.0.0.1:PORT/v1`) of a healthy server for these weights; starts one if there is none.

    Callers in any number of processes get the same server: a file lock lets one of them start it. It ends itself when it
    idles, so nobody has to stop it. `model_path` may also be a hub name. Raises PolicyError when it does not start.
    """
    state = run_dir / "servers" / server_key(model_path)
    state.mkdir(parents=True, exist_ok=True)
    url = healthy_url(state)
    if url:
        return url
    with locked(state / "lock"):
        url = healthy_url(state)  # someone else was first
        return url or start(model_path, state, idle_seconds)


def server_key(model_path: Path | str) -> str:
    """Names the weights, not only the place: a folder written anew gets a server of its own."""
    path = Path(model_path)
    stamps = [
        f"{file.name}:{file.stat().st_size}:{file.stat().st_mtime_ns}" for file in sorted(path.glob("*.safetensors"))
    ]
    name = str(path.resolve()) if path.is_dir() else str(model_path)
    return hashlib.sha256("|".join([name, *stamps]).encode()).hexdigest()[:16]


def healthy_url(state: Path) -> str:
    """The address of the server that this folder tells of, if it answers and is the one meant; else nothing."""
    try:
        port, pid = int((state / "port").read_text()), int((state / "pid").read_text())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        answer = json.loads(connection.getresponse().read())
        connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    return f"http://127.0.0.1:{port}/v1" if answer.get("pid") == pid else ""


def start(model_path: Path | str, state: Path, idle_seconds: float) -> str:
    """Start the server and wait until it answers."""
    (state / "port").unlink(missing_ok=True)
    argv = [sys.executable, str(SERVER), str(model_path), str(state), "--idle", str(idle_seconds)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with (state / "log").open("ab") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
        )
    (state / "pid").write_text(f"{process.pid}\n")
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        if url := healthy_url(state):
            return url
        if process.poll() is not None:
            break
        time.sleep(0.1)
    else:
        process.kill()
    raise PolicyError(
        f"The local model {Path(model_path).name} could not be served: {last_words(state / 'log')}", transient=False
    )


def last_words(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.is_file() else []
    return lines[-1][:300] if lines else "it did not answer in time"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock; the kernel frees it if the holder dies."""
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
