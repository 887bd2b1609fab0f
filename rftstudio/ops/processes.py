"""Processes that outlive whoever starts them: who they are, whether they still live, how to start and end them.

Standard library only, no Django. A pid alone names nobody, because the kernel gives it out again; an identity is the pid
with its start time and the boot it belongs to.

The contract of a detached process (a trainer, a local model server):
- it is started with `spawn_detached`, so the death of the worker that asked for it does not touch it;
- it writes or is given a pid file `var/run/<name>.pid` (`pid_file_write`), so that the supervisor can end it;
- its environment names the supervisor (`STUDIO_SUPERVISOR_PID` and `STUDIO_SUPERVISOR_TICKS`). About once a second it
  checks that this process is still there, and ends itself as on SIGTERM when it is gone. Without these variables there
  is no supervisor (containers, tests) and nothing to watch.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

SUPERVISOR_PID = "STUDIO_SUPERVISOR_PID"
SUPERVISOR_TICKS = "STUDIO_SUPERVISOR_TICKS"


class Identity(TypedDict):
    """One process, told apart from every other that had or will have its pid. Plain JSON."""

    pid: int
    start_ticks: int
    boot_id: str


def process_identity(pid: int) -> Identity:
    """The identity of a live process; ProcessLookupError when there is none."""
    ticks = _start_ticks(pid)
    if ticks is None:
        raise ProcessLookupError(f"There is no process {pid}.")
    return {"pid": pid, "start_ticks": ticks, "boot_id": _boot_id()}


def is_alive(identity: Mapping | None) -> bool:
    """Whether that very process still runs. A zombie, a reused pid and an earlier boot all count as dead."""
    if not identity or identity.get("boot_id") != _boot_id():
        return False
    return _start_ticks(int(identity["pid"])) == identity["start_ticks"]


def spawn_detached(
    argv: Sequence[str], *, cwd: Path | str, log_path: Path | str, env: Mapping[str, str] | None = None
) -> Identity:
    """Start a process in a session of its own, not our child, its output appended to `log_path`.

    `env` is the whole environment of the new process (None: ours); the supervisor's name is added to it. A go-between
    starts it and ends at once: no zombie stays with us, and no fork happens in a process that may have threads.
    """
    whole = dict(os.environ if env is None else env)
    for name in (SUPERVISOR_PID, SUPERVISOR_TICKS):
        if name in os.environ:
            whole.setdefault(name, os.environ[name])
    program = [str(part) for part in argv]
    order = {"argv": program, "cwd": str(cwd), "log_path": str(log_path), "env": whole}
    done = subprocess.run(
        [sys.executable, "-I", "-S", __file__],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise OSError(f"{program[0]} could not be started: {reason[0]}")
    return json.loads(done.stdout)


def end(identity: Mapping | None, *, grace: float = 10.0, group: bool = False) -> bool:
    """SIGTERM, wait up to `grace` seconds, SIGKILL. True when the process had to be killed. `group` takes all below it
    along, also what has a session of its own, as the workers of a launcher of several processes do."""
    below = descendants(identity) if group else []
    if not _signal(identity, signal.SIGTERM, group):
        return False
    limit = time.monotonic() + grace
    while is_alive(identity) and time.monotonic() < limit:
        time.sleep(0.02)
    was_killed = _signal(identity, signal.SIGKILL, group)
    for one in below:
        _signal(one, signal.SIGKILL, False)
    return was_killed


def descendants(identity: Mapping | None) -> list[Identity]:
    """Every process below this one that now lives. Empty where /proc is missing."""
    if identity is None or not is_alive(identity):
        return []
    children: dict[int, list[Identity]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(process_identity(int(folder.name)))
        except (OSError, ValueError, IndexError):
            continue
    found: list[Identity] = []
    waiting = [int(identity["pid"])]
    while waiting:
        below = children.pop(waiting.pop(), [])
        found += below
        waiting += [one["pid"] for one in below]
    return found


def end_all(identities: Sequence[Mapping], *, grace: float = 10.0) -> None:
    """As `end`, for many at once: they share the grace."""
    living = [one for one in identities if _signal(one, signal.SIGTERM, False)]
    limit = time.monotonic() + grace
    while time.monotonic() < limit and any(is_alive(one) for one in living):
        time.sleep(0.02)
    for one in living:
        _signal(one, signal.SIGKILL, False)


def bearing_our_name() -> list[Identity]:
    """Every process whose environment names this one as its supervisor, itself aside. Empty where /proc is missing."""
    marks = {f"{name}={value}" for name, value in supervisor_env().items()}
    found: list[Identity] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            if marks <= set(lines) and int(folder.name) != os.getpid():
                found.append(process_identity(int(folder.name)))
        except OSError:
            continue
    return found


def supervisor_env() -> dict[str, str]:
    """The variables by which this process names itself as supervisor to all it starts."""
    me = process_identity(os.getpid())
    return {SUPERVISOR_PID: str(me["pid"]), SUPERVISOR_TICKS: str(me["start_ticks"])}


def supervisor_is_gone() -> bool:
    """True when the environment names a supervisor that no longer runs."""
    pid, ticks = os.environ.get(SUPERVISOR_PID, ""), os.environ.get(SUPERVISOR_TICKS, "")
    return bool(pid) and str(_start_ticks(int(pid))) != ticks


def follow_supervisor(*, look: float = 1.0, grace: float = 10.0) -> None:
    """End this program's whole session when its supervisor is gone and the signal that says so was lost.

    For programs that put their signal handlers in before they can obey them, as Celery's worker does while it boots.
    """
    if not os.environ.get(SUPERVISOR_PID) or os.getpgrp() != os.getpid():
        return

    def watch() -> None:
        while not supervisor_is_gone():
            time.sleep(look)
        time.sleep(grace)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, name="follow-supervisor", daemon=True).start()


def pid_file_write(path: Path, identity: Mapping) -> None:
    """Note a process where the supervisor looks for those it must end. Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text(json.dumps(dict(identity)) + "\n")
    fresh.replace(path)


def pid_file_read(path: Path) -> Identity | None:
    """The process that the file names, dead or alive; None for a missing or broken file."""
    try:
        found = json.loads(path.read_text())
        return {"pid": int(found["pid"]), "start_ticks": int(found["start_ticks"]), "boot_id": str(found["boot_id"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _signal(identity: Mapping | None, number: int, group: bool) -> bool:
    if identity is None or not is_alive(identity):
        return False
    pid = int(identity["pid"])
    try:
        if group and os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _start_ticks(pid: int) -> int | None:
    """Start time in the kernel's own unit; None for no process or a zombie."""
    if not sys.platform.startswith("linux"):
        return _start_ticks_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return None if fields[0] in "ZXx" else int(fields[19])


def _start_ticks_by_ps(pid: int) -> int | None:
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    ).stdout.split(maxsplit=1)
    if len(shown) < 2 or shown[0].startswith("Z"):
        return None
    return int(time.mktime(time.strptime(shown[1].strip(), "%a %b %d %H:%M:%S %Y")))


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _go_between() -> None:
    """Read an order from stdin, start it, print its identity, leave it to init."""
    order = json.load(sys.stdin)
    with open(order["log_path"], "ab") as log:
        child = subprocess.Popen(
            order["argv"],
            cwd=order["cwd"],
            env=order["env"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ticks = _start_ticks(child.pid)
    print(json.dumps({"pid": child.pid, "start_ticks": ticks or 0, "boot_id": _boot_id()}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    _go_between()
