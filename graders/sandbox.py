"""Runs user Python in confined processes. Portable: standard library only, Linux only, fail-closed.

One zygote per Studio process forks a locked worker in a few milliseconds. Workers stay warm by owner and source, so
no process is ever shared between teams. The wall-clock limit is SIGKILL from outside; memory, files, processes and the
network are closed by sandbox_lock.py. A self-test at the first start must fail to open, connect and fork, or no Python
grader runs here at all.
"""

import atexit
import hashlib
import os
import threading
import time
from collections import OrderedDict
from typing import Any

from graders import sandbox_lock
from graders.failures import SandboxUnavailable
from graders.sandbox_process import SELF_TEST, PythonAnswer, PythonFailed, PythonLimits, Worker, Zygote

CALLS_PER_WORKER = 20_000
IDLE_SECONDS = 300.0


class Sandbox:
    """A pool of confined workers. Threads may share it."""

    def __init__(self, max_workers: int | None = None) -> None:
        self.max_workers = max_workers or max(4, 2 * (os.cpu_count() or 1))
        self._free = threading.Condition()
        self._idle: OrderedDict[tuple, list[Worker]] = OrderedDict()
        self._count = 0
        self._zygote: Zygote | None = None
        self._starting = threading.Lock()
        self._layers: dict[str, Any] | None = None
        self._refusal: str = ""

    def run(
        self, owner: str, source: str, sample: dict[str, Any], item: dict[str, Any], limits: PythonLimits
    ) -> PythonAnswer:
        """One grade. PythonFailed is the author's fault, SandboxUnavailable is ours."""
        self.start()
        worker = self._acquire((owner, _digest(source), limits.memory_bytes), source, limits)
        is_sound = False
        try:
            answer = worker.call(sample, item, limits)
            is_sound = True
        except PythonFailed as exc:
            is_sound = exc.kind not in {"TimeoutError", "ProcessDied", "ProtocolError"}
            raise
        finally:
            self._release(worker, is_sound)
        return answer

    def start(self) -> None:
        """Bring up the zygote and prove that the walls stand; SandboxUnavailable says why not."""
        if self._zygote and self._layers is not None and self._zygote.is_alive():
            return
        with self._starting:
            if self._refusal:
                raise SandboxUnavailable(self._refusal)
            if self._zygote and self._zygote.is_alive() and self._layers is not None:
                return
            self._restart()

    def active_layers(self) -> dict[str, Any]:
        """What protects this machine, for the settings page; never raises."""
        try:
            self.start()
        except SandboxUnavailable as exc:
            return {"is_available": False, "reason": str(exc)}
        return {"is_available": True, "reason": "", **(self._layers or {}), "self_test": "passed"}

    def forget(self, owner: str, source: str) -> None:
        """End the idle workers of one source."""
        digest = _digest(source)
        with self._free:
            gone = [key for key in self._idle if key[:2] == (owner, digest)]
            workers = [worker for key in gone for worker in self._idle.pop(key)]
            self._count -= len(workers)
            self._free.notify_all()
        for worker in workers:
            worker.close()

    def close(self) -> None:
        with self._free:
            workers = [worker for several in self._idle.values() for worker in several]
            self._idle.clear()
            self._count -= len(workers)
        for worker in workers:
            worker.close()
        if self._zygote:
            self._zygote.close()
        self._zygote = self._layers = None

    def _restart(self) -> None:
        if not sandbox_lock.is_supported():
            self._refusal = (
                "Python graders run only on Linux with seccomp (x86_64 or aarch64); the other kinds work here."
            )
            raise SandboxUnavailable(self._refusal)
        self.close()
        self._zygote = Zygote()
        limits = PythonLimits(seconds=20)
        worker = Worker(self._zygote, ("", "self-test", 0), limits)
        try:
            worker.load(SELF_TEST, limits)
            answer = worker.call({}, {}, limits)
        except (PythonFailed, SandboxUnavailable) as exc:
            self._refusal = f"The sandbox failed its self-test: {exc}"
            raise SandboxUnavailable(self._refusal) from exc
        finally:
            worker.close()
        if answer.value:
            self._refusal = f"The sandbox does not hold: {answer.output.strip()}"
            raise SandboxUnavailable(self._refusal)
        self._layers = worker.layers

    def _acquire(self, key: tuple, source: str, limits: PythonLimits) -> Worker:
        with self._free:
            while True:
                if worker := self._pop_idle(key):
                    return worker
                if self._count < self.max_workers or self._evict():
                    self._count += 1
                    break
                self._free.wait(1.0)
        zygote = self._zygote
        if zygote is None:
            raise SandboxUnavailable("The sandbox was closed.")
        worker = None
        try:
            worker = Worker(zygote, key, limits)
            worker.load(source, limits)
        except BaseException:
            if worker:
                worker.close()
            with self._free:
                self._count -= 1
                self._free.notify()
            raise
        return worker

    def _pop_idle(self, key: tuple) -> Worker | None:
        while several := self._idle.get(key):
            worker = several.pop()
            if not several:
                del self._idle[key]
            if worker.zygote is self._zygote and worker.is_quiet():
                return worker
            self._count -= 1
            worker.close()
        return None

    def _evict(self) -> bool:
        """Make room by ending the worker that has been idle longest."""
        if not self._idle:
            return False
        key, several = next(iter(self._idle.items()))
        worker = several.pop(0)
        if not several:
            del self._idle[key]
        self._count -= 1
        worker.close()
        return True

    def _release(self, worker: Worker, is_sound: bool) -> None:
        now = time.monotonic()
        worker.idle_since = now
        old: list[Worker] = []
        with self._free:
            if is_sound and worker.calls < CALLS_PER_WORKER and worker.zygote is self._zygote:
                self._idle.setdefault(worker.key, []).append(worker)
                self._idle.move_to_end(worker.key)
            else:
                old.append(worker)
            old += self._outdated(now)
            self._count -= len(old)
            self._free.notify()
        for gone in old:
            gone.close()

    def _outdated(self, now: float) -> list[Worker]:
        old = []
        for key in list(self._idle):
            several = self._idle[key]
            if now - several[0].idle_since < IDLE_SECONDS:
                break
            old.append(several.pop(0))
            if not several:
                del self._idle[key]
        return old

    def _forget_all(self) -> None:
        for several in self._idle.values():
            for worker in several:
                worker._close_pipes()
        if self._zygote:
            self._zygote.forget()


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


_shared: Sandbox | None = None
_shared_lock = threading.Lock()


def shared() -> Sandbox:
    """The sandbox of this process, made at the first use."""
    global _shared
    if _shared is None:
        with _shared_lock:
            _shared = _shared or Sandbox()
    return _shared


def active_layers() -> dict[str, Any]:
    """What protects this machine from user Python."""
    return shared().active_layers()


def _close_shared() -> None:
    if _shared:
        _shared.close()


def _after_fork() -> None:
    """A forked worker process must not speak to its parent's zygote."""
    global _shared, _shared_lock
    _shared_lock = threading.Lock()
    if _shared:
        _shared._forget_all()
        _shared = None


atexit.register(_close_shared)
os.register_at_fork(after_in_child=_after_fork)
