"""Runs user Python in confined processes. Portable: standard library only, fail-closed.

One zygote per Studio process forks a locked worker in a few milliseconds. Workers stay warm by owner and source, so
no process is ever shared between teams. The wall-clock limit is SIGKILL from outside; memory, files, processes and the
network are closed by sandbox_lock.py. Where the kernel has no seccomp, WebAssembly is the second choice, if it is
installed. Whichever it is, a self-test at the first start must fail to open, connect and fork; where none passes, no
Python grader runs here at all.
"""

import atexit
import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from graders.failures import SandboxUnavailable
from graders.sandbox_process import Home, PythonAnswer, PythonFailed, PythonLimits, Worker, Zygote
from graders.sandbox_proof import PROOF, proof_item
from graders.sandbox_wasm import WasmHome

CALLS_PER_WORKER = 20_000
IDLE_SECONDS = 300.0
#: In order of preference; the first whose walls are proven is used.
HOMES: tuple[Callable[[], Home], ...] = (Zygote, WasmHome)


class Sandbox:
    """A pool of confined workers. Threads may share it."""

    def __init__(self, max_workers: int | None = None, homes: tuple[Callable[[], Home], ...] = HOMES) -> None:
        self.max_workers = max_workers or max(4, 2 * (os.cpu_count() or 1))
        self._free = threading.Condition()
        self._idle: OrderedDict[tuple, list[Worker]] = OrderedDict()
        self._count = 0
        self._homes = homes
        self._home: Home | None = None
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
        """Bring up what starts workers and prove that the walls stand; SandboxUnavailable says why not."""
        if self._home and self._layers is not None and self._home.is_alive():
            return
        with self._starting:
            if self._refusal:
                raise SandboxUnavailable(self._refusal)
            if self._home and self._home.is_alive() and self._layers is not None:
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
        if self._home:
            self._home.close()
        self._home = self._layers = None

    def _restart(self) -> None:
        self.close()
        refusals = []
        for make in self._homes:
            try:
                self._home = make()
                self._layers = self._proven(self._home)
            except SandboxUnavailable as exc:
                refusals.append(str(exc))
                self.close()
            else:
                return
        self._refusal = f"Python graders do not run here; the other kinds do. {' '.join(refusals)}"
        raise SandboxUnavailable(self._refusal)

    def _proven(self, home: Home) -> dict[str, Any]:
        """The layers that stand, after a worker has tried to get out and failed in every way."""
        limits = PythonLimits(seconds=20)
        worker = Worker(home, ("", "self-test", 0), limits)
        try:
            worker.load(PROOF, limits)
            answer = worker.call({}, proof_item(), limits)
        except PythonFailed as exc:
            raise SandboxUnavailable(f"The sandbox failed its self-test: {exc}") from exc
        finally:
            worker.close()
        if answer.value:
            raise SandboxUnavailable(f"The sandbox does not hold: {answer.output.strip()}")
        return worker.layers

    def _acquire(self, key: tuple, source: str, limits: PythonLimits) -> Worker:
        with self._free:
            while True:
                if worker := self._pop_idle(key):
                    return worker
                if self._count < self.max_workers or self._evict():
                    self._count += 1
                    break
                self._free.wait(1.0)
        home = self._home
        if home is None:
            raise SandboxUnavailable("The sandbox was closed.")
        worker = None
        try:
            worker = Worker(home, key, limits)
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
            if worker.home is self._home and worker.is_quiet():
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
            if is_sound and worker.calls < CALLS_PER_WORKER and worker.home is self._home:
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
        if self._home:
            self._home.forget()


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
