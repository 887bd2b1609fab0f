"""Keeps programs running: starts them, notes them, restarts the dead, ends them all. Knows nothing about Studio.

Standard library only. All programs are started by one thread that lives as long as they do, because the kernel ties a
leash to the thread that started the program.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rftstudio.ops import processes
from rftstudio.ops.leash import leashed

LOG_LIMIT_BYTES = 10_000_000
STEADY_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 30.0
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Program:
    """One program of the group. `stop_signals` are sent in turn, each given `grace` seconds; SIGKILL comes last.

    The leash sends the last of them. The ground is what others stand on, so it ends after them.
    """

    name: str
    argv: tuple[str, ...]
    stop_signals: tuple[int, ...] = (signal.SIGTERM,)
    grace: float = 8.0
    env: Mapping[str, str] = field(default_factory=dict)
    pass_fds: tuple[int, ...] = ()
    is_ground: bool = False


@dataclass
class _Kept:
    program: Program
    child: subprocess.Popen
    started: float
    failures: int = 0


class Keeper:
    """Runs programs under `var_dir`: pid files in run/, output in log/."""

    def __init__(
        self, *, var_dir: Path, cwd: Path, echo: Callable[[str], None], env: Mapping[str, str] | None = None
    ) -> None:
        self.run_dir, self.log_dir = var_dir / "run", var_dir / "log"
        self.cwd, self.echo, self.env = cwd, echo, dict(os.environ if env is None else env)
        self.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self._kept: dict[str, _Kept] = {}
        self._due: dict[str, tuple[float, int]] = {}  # name → when to start again, failures so far
        self._programs: dict[str, Program] = {}
        self._wanted: list[Program] = []
        self._stopping = threading.Event()
        self._between: Callable[[], None] = lambda: None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._watch, name="keeper", daemon=True)

    def start(self, program: Program) -> None:
        """Have the program run from now on. Returns once it has been started, not once it is ready."""
        with self._changed:
            if not self._thread.is_alive():
                self._thread.start()
            self._wanted.append(program)
            self._changed.wait_for(lambda: program.name in self._kept or program.name in self._due, timeout=30)

    def pid(self, name: str) -> int | None:
        """The pid of a running program, None while it waits for its restart."""
        kept = self._kept.get(name)
        return kept.child.pid if kept and kept.child.poll() is None else None

    def names(self) -> list[str]:
        return list(self._programs)

    def is_up(self, name: str) -> bool:
        return self.pid(name) is not None

    def stop(self, between: Callable[[], None] = lambda: None) -> None:
        """End every program and wait for it: first those above ground, then whatever `between` ends, then the ground."""
        self._between = between
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.is_set():
            with self._changed:
                while self._wanted:
                    program = self._wanted.pop(0)
                    self._programs[program.name] = program
                    self._spawn(program, failures=0)
                self._changed.notify_all()
            for name, kept in list(self._kept.items()):
                if kept.child.poll() is not None:
                    self._bury(name, kept)
            for name, (when, failures) in list(self._due.items()):
                if time.monotonic() >= when:
                    del self._due[name]
                    self._spawn(self._programs[name], failures=failures)
            self._stopping.wait(LOOK_SECONDS)
        # Still in this thread: when it ends the leashes pull.
        self._end_all([kept for kept in self._kept.values() if not kept.program.is_ground])
        self._between()
        self._end_all(list(self._kept.values()))

    def _spawn(self, program: Program, *, failures: int) -> None:
        log = self.log_dir / f"{program.name}.log"
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            log.replace(log.with_suffix(".log.1"))
        try:
            with log.open("ab") as out:
                child = subprocess.Popen(
                    leashed(list(program.argv), signal_number=program.stop_signals[-1]),
                    cwd=self.cwd,
                    env={**self.env, **program.env},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=program.pass_fds,
                )
        except OSError as exc:
            self._later(program.name, failures + 1, f"could not be started: {exc}")
            return
        self._kept[program.name] = _Kept(program, child, time.monotonic(), failures)
        with contextlib.suppress(ProcessLookupError):  # dead already; the next look buries it
            processes.pid_file_write(self._pid_file(program.name), processes.process_identity(child.pid))

    def _bury(self, name: str, kept: _Kept) -> None:
        del self._kept[name]
        self._end_group(kept)
        self._pid_file(name).unlink(missing_ok=True)
        failures = 1 if time.monotonic() - kept.started > STEADY_SECONDS else kept.failures + 1
        self._later(name, failures, f"ended with {_status(kept.child.returncode)}")

    def _later(self, name: str, failures: int, what: str) -> None:
        pause = 0.0 if failures == 1 else min(0.5 * 2 ** (failures - 1), LONGEST_PAUSE_SECONDS)
        self._due[name] = (time.monotonic() + pause, failures)
        when = f"in {pause:.0f} s" if pause >= 1 else "now"
        self.echo(f"{name} {what}; starting it again {when}. Its output is in {self.log_dir / name}.log")

    def _end_all(self, group: list[_Kept]) -> None:
        for stage in range(max((len(kept.program.stop_signals) for kept in group), default=0)):
            living = [kept for kept in group if kept.child.poll() is None]
            for kept in living:
                signals = kept.program.stop_signals
                kept.child.send_signal(signals[min(stage, len(signals) - 1)])
            limit = time.monotonic() + max((kept.program.grace for kept in living), default=0)
            while time.monotonic() < limit and any(kept.child.poll() is None for kept in living):
                time.sleep(0.02)
        for kept in group:
            self._end_group(kept)
            kept.child.wait()
            self._pid_file(kept.program.name).unlink(missing_ok=True)
            self._kept.pop(kept.program.name, None)

    def _end_group(self, kept: _Kept) -> None:
        """Kill what is left of the program's session: pool children of a killed worker, for instance."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(kept.child.pid, signal.SIGKILL)

    def _pid_file(self, name: str) -> Path:
        return self.run_dir / f"{name}.pid"


def _status(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
