"""The zygote and its workers: the only place where a team's Python runs. Started as a script, never imported by Studio.

The zygote imports the common modules once, then forks a worker per request, handing it two pipe ends. It never reads
a grader's source: that travels down the pipe, so nothing of one team is in the memory another team's worker inherits.
A worker imports what its source asks for, locks itself (sandbox_lock.py), runs the module text, and answers calls.

What a worker then does is in sandbox_serving.py.
"""

import array
import importlib
import importlib.util
import json
import os
import select
import signal
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

LOCK = MODULES = SERVING = None


# The zygote.


def zygote(control_fd, parent):
    """Fork a worker for each message until the parent goes away."""
    _import_helpers()
    _import_common()
    control = socket.socket(fileno=control_fd)
    children = {}
    control.send(b"ready")
    while True:
        readable, _, _ = select.select([control], [], [], 1.0)
        _reap(children)
        if os.getppid() != parent:
            return
        if not readable:
            continue
        data, fds = _receive(control)
        if not data:
            return
        order = json.loads(data)
        if "kill" in order:
            _kill(children, order["kill"])
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            os._exit(worker(fds[0], fds[1], order))
        for fd in fds:
            os.close(fd)
        children[pid] = True
        control.send(json.dumps({"pid": pid}).encode())


def _receive(control):
    fds = array.array("i")
    try:
        data, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_LEN(4 * 2))
    except ConnectionError:
        return b"", []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % 4])
    return data, list(fds)


def _reap(children):
    while children:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.pop(pid, None)


def _kill(children, pid):
    """Only a child that has not been reaped is killed, so a number used again is never hit."""
    if pid in children:
        os.kill(pid, signal.SIGKILL)


def _import_helpers():
    """By path: this folder must not be on sys.path, where its types.py would stand before Python's own."""
    global LOCK, MODULES, SERVING
    LOCK, MODULES, SERVING = (_from_file(f"sandbox_{name}") for name in ("lock", "modules", "serving"))


def _from_file(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _import_common():
    for name in MODULES.COMMON:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    import datetime

    datetime.datetime.strptime("2020-01-01", "%Y-%m-%d")
    "é.example".encode("idna")


# The worker.


def worker(request_fd, reply_fd, order):
    """Load one grader and answer its calls; returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    ends = _settle(request_fd, reply_fd, null)
    first = SERVING.read_frame(ends[0])
    if first is None:
        return 0
    _import_requested(first.get("imports", []))
    try:
        layers = LOCK.lock({0, 1, 2, *ends}, memory_bytes=order["memory"], cpu_seconds=order["cpu"])
    except Exception as exc:
        SERVING.write_frame(ends[1], {"nonce": first["nonce"], "lock_failed": f"{type(exc).__name__}: {exc}"})
        return 1
    for name in MODULES.UNOFFERED:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, SERVING.Absent(MODULES.ROOTS))
    SERVING.serve(*ends, first, layers)
    return 0


def _settle(request_fd, reply_fd, null):
    """Pipes on high numbers, nothing but /dev/null on 0, 1 and 2."""
    high = [os.dup(request_fd), os.dup(reply_fd)]
    while min(high) < 10:
        high = [os.dup(fd) if fd < 10 else fd for fd in high]
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    return high


def _import_requested(names):
    for name in names:
        if name.partition(".")[0] in MODULES.ON_REQUEST:
            try:
                importlib.import_module(name)
            except ImportError:
                continue
    _warm_up({name.partition(".")[0] for name in names})


def _warm_up(roots):
    """Some libraries open files at their first use; use them once while files can be opened."""
    if "jsonschema" in roots and "jsonschema" in sys.modules:
        import jsonschema

        for validator in (jsonschema.Draft202012Validator, jsonschema.Draft7Validator):
            validator.check_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "a"}}})
            list(validator({"$defs": {"a": {"type": "string"}}, "$ref": "#/$defs/a"}).iter_errors(1))
    if "rouge_score" in roots and "rouge_score" in sys.modules:
        from rouge_score import rouge_scorer

        rouge_scorer.RougeScorer(["rouge1", "rougeL"]).score("a b", "a")


if __name__ == "__main__":
    zygote(int(sys.argv[1]), int(sys.argv[2]))
