"""The zygote and its workers: the only place where a team's Python runs. Started as a script, never imported by Studio.

The zygote imports the common modules once, then forks a worker per request, handing it two pipe ends. It never reads
a grader's source: that travels down the pipe, so nothing of one team is in the memory another team's worker inherits.
A worker imports what its source asks for, locks itself (sandbox_lock.py), runs the module text, and answers calls.

Frames are a 4-byte length and JSON. Every reply repeats the nonce of its call, so text that a grader writes to the
pipe by itself is never taken for an answer.
"""

import array
import importlib
import importlib.abc
import importlib.util
import io
import json
import linecache
import math
import os
import select
import signal
import socket
import struct
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))

OUTPUT_LIMIT = 16_384
TRACE_LIMIT = 6_000
SOURCE_NAME = "grader.py"
LOCK = MODULES = None


def read_frame(fd):
    """One message, or None at the end of the stream."""
    head = _read_exactly(fd, 4)
    if head is None:
        return None
    body = _read_exactly(fd, struct.unpack("!I", head)[0])
    return None if body is None else json.loads(body)


def _read_exactly(fd, size):
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_frame(fd, message):
    body = json.dumps(message).encode()
    data = struct.pack("!I", len(body)) + body
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


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
    global LOCK, MODULES
    LOCK, MODULES = (_from_file(name) for name in ("sandbox_lock", "sandbox_modules"))


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
    first = read_frame(ends[0])
    if first is None:
        return 0
    _import_requested(first.get("imports", []))
    try:
        layers = LOCK.lock({0, 1, 2, *ends}, memory_bytes=order["memory"], cpu_seconds=order["cpu"])
    except Exception as exc:
        write_frame(ends[1], {"nonce": first["nonce"], "lock_failed": f"{type(exc).__name__}: {exc}"})
        return 1
    for name in MODULES.UNOFFERED:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Absent())
    serve(*ends, first, layers)
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


class _Absent(importlib.abc.MetaPathFinder):
    """Says why an import fails, in place of a search through a file system that is not there."""

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in MODULES.ROOTS:
            raise ModuleNotFoundError(f"module {name} is not available in graders", name=name)
        return


class _Output(io.TextIOBase):
    """What the grader prints: the start is kept, the rest is counted and dropped."""

    def __init__(self):
        self.kept = []
        self.size = 0

    def writable(self):
        return True

    def write(self, text):
        text = str(text)
        room = OUTPUT_LIMIT - min(self.size, OUTPUT_LIMIT)
        if room > 0:
            self.kept.append(text[:room])
        self.size += len(text)
        return len(text)

    def take(self):
        text, size = "".join(self.kept), self.size
        self.kept, self.size = [], 0
        return text if size <= OUTPUT_LIMIT else f"{text}\n… {size - OUTPUT_LIMIT} more characters were dropped"


def serve(request_fd, reply_fd, first, layers):
    """Run the module text once, then one call after the other until the pipe closes."""
    output = _Output()
    sys.stdout = sys.stderr = output
    sys.stdin = io.StringIO()
    source = first["source"]
    linecache.cache[SOURCE_NAME] = (len(source), None, source.splitlines(True), SOURCE_NAME)
    module = sys.modules["grader"] = type(sys)("grader")
    failure = _load(source, module.__dict__)
    write_frame(reply_fd, {"nonce": first["nonce"], "layers": layers, "output": output.take(), **failure})
    if failure:
        return
    while (message := read_frame(request_fd)) is not None:
        answer = _answer(module.__dict__, message)
        _quiet_signals()
        printed = output.take()
        if printed:
            answer["output"] = printed
        answer["nonce"] = message["nonce"]
        write_frame(reply_fd, answer)


def _load(source, module):
    try:
        exec(compile(source, SOURCE_NAME, "exec", dont_inherit=True), module)  # noqa: S102
    except BaseException as exc:
        return _failure(exc)
    if not callable(module.get("grade")):
        return {"error": "The source defines no function grade(sample, item).", "kind": "NameError"}
    return {}


def _answer(module, message):
    sample, item = message["sample"], message["item"]
    try:
        answer = {"value": _number(module["grade"](sample, item), "grade")}
        if callable(module.get("grade_steps")):
            marks = module["grade_steps"](sample, item)
            answer["steps"] = [None if mark is None else _number(mark, "grade_steps") for mark in marks]
        return answer
    except BaseException as exc:
        return _failure(exc)


class _NotANumber(TypeError):
    """The function's answer cannot be a reward."""


def _number(value, function):
    """A finite float. True and False count as 1 and 0; text, lists and None are no numbers."""
    import numbers

    if isinstance(value, numbers.Real) or type(value).__name__ in {"bool", "bool_"}:
        try:
            number = float(value)
        except OverflowError:
            raise _NotANumber(f"{function} returned an integer too large for a number.") from None
        if math.isfinite(number):
            return number
        raise _NotANumber(f"{function} returned {number}, which is not a finite number.")
    raise _NotANumber(f"{function} returned {_article(type(value).__name__)}, not a number.")


def _article(name):
    return name if name == "NoneType" else f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


def _failure(exc):
    if isinstance(exc, _NotANumber):
        return {"error": str(exc), "kind": "TypeError"}
    kind = type(exc).__name__
    try:
        text = str(exc)[:2000]
    except BaseException:
        text = "(its message cannot be shown)"
    return {"error": f"{kind}: {text}" if text else kind, "kind": kind, "traceback": _trace(exc), "line": _line(exc)}


def _frames(exc):
    try:
        return [frame for frame in traceback.extract_tb(exc.__traceback__, 400) if frame.filename == SOURCE_NAME]
    except BaseException:
        return []


def _line(exc):
    frames = _frames(exc)
    return frames[-1].lineno if frames else getattr(exc, "lineno", None)


def _trace(exc):
    """The user's own lines only."""
    try:
        frames = _frames(exc)
        shown = frames if len(frames) <= 12 else [*frames[:6], *frames[-6:]]
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)]
        lines += traceback.format_exception_only(type(exc), exc)
        return "".join(lines)[-TRACE_LIMIT:]
    except BaseException:
        return ""


def _quiet_signals():
    """An alarm that a call has set must not strike the next one."""
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
    except BaseException:
        return


if __name__ == "__main__":
    zygote(int(sys.argv[1]), int(sys.argv[2]))
