"""One worker of the WebAssembly sandbox: CPython as a guest of wasmtime. Started as a script, never imported by Studio.

The guest gets our pipes as its input and output, a limit on memory, and nothing else: no folder is opened for it, no
environment, no network. It runs sandbox_serving.py, handed over as text.
"""

import os
import resource
import sys
import threading
import time
from pathlib import Path

import wasmtime

GUEST = """
sys.meta_path.insert(0, Absent(sys.stdlib_module_names | {"grader"}, WHY))
_first = read_frame(0)
if _first is not None:
    serve(0, 1, _first, {"wasm": True})
"""
WHY = " on this machine: it has no seccomp, so Python runs in WebAssembly with the standard library alone"


def main(runtime: str, memory_bytes: int, cpu_seconds: int, parent: int) -> None:
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 1 << 30),
        (resource.RLIMIT_CPU, cpu_seconds),
    ):
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, hard))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    engine, module = _compiled(runtime)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    store = wasmtime.Store(engine)
    store.set_limits(memory_size=memory_bytes)
    wasi = wasmtime.WasiConfig()
    source = Path(__file__).with_name("sandbox_serving.py").read_text(encoding="utf-8")
    wasi.argv = ["python", "-I", "-S", "-B", "-c", f"{source}\nWHY = {WHY!r}\n{GUEST}"]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    store.set_wasi(wasi)
    start = linker.instantiate(store, module).exports(store)["_start"]
    try:
        start(store)
    except (wasmtime.ExitTrap, wasmtime.Trap, wasmtime.WasmtimeError):
        os._exit(1)


def _compiled(runtime: str) -> tuple[wasmtime.Engine, wasmtime.Module]:
    """The interpreter as machine code. Compiling takes ten seconds, so wasmtime keeps it in the user's cache folder."""
    config = wasmtime.Config()
    try:
        config.cache = True
    except wasmtime.WasmtimeError:
        config = wasmtime.Config()
    engine = wasmtime.Engine(config)
    return engine, wasmtime.Module.from_file(engine, runtime)


def _end_with(parent: int) -> None:
    """A worker whose Studio has gone must not compute on."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
