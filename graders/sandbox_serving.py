"""What runs a team's Python inside its walls: the module text once, then one call after the other. Standard library only.

It is told nothing about the walls. The zygote's worker (sandbox_worker.py) loads this file by path before it locks
itself; where there is no seccomp the same text runs in WebAssembly (sandbox_wasm.py). Never imported by Studio.

Frames are a 4-byte length and JSON. Every reply repeats the nonce of its call, so text that a grader writes to the
pipe by itself is never taken for an answer.
"""

import importlib.abc
import io
import json
import linecache
import math
import os
import signal
import struct
import sys
import traceback

OUTPUT_LIMIT = 16_384
TRACE_LIMIT = 6_000
SOURCE_NAME = "grader.py"


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


class Absent(importlib.abc.MetaPathFinder):
    """Says why an import fails, in place of a search through a file system that is not there."""

    def __init__(self, roots, why=""):
        self.roots, self.why = roots, why

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in self.roots:
            raise ModuleNotFoundError(f"module {name} is not available in graders{self.why}", name=name)
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
