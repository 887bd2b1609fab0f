"""Parts of one grader that wait for models or servers wait at the same time. Portable.

The threads belong to the process and are few; a part that no thread has begun is graded by the caller itself, so that
many graders at once never wait for each other. What runs in the sandbox stays on the caller's thread.
"""

import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from graders.types import Grade, Sample

THREADS = 32


class Part(Protocol):
    """A compiled grader."""

    is_costly: bool

    def prepare(self) -> None: ...

    def grade(self, item: dict[str, Any], sample: Sample, trace_id: str = "") -> Grade: ...


_pool: ThreadPoolExecutor | None = None


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="grader-part")
    return _pool


def _after_fork() -> None:
    """A forked child has none of the threads."""
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_after_fork)


def graded_together(parts: Mapping[str, Part], item: dict[str, Any], sample: Sample, trace_id: str) -> dict[str, Grade]:
    """The grade of every part, in the order of the parts. All but one of the costly ones go to other threads."""
    waiting: dict[str, Future[Grade]] = {}
    for name in [name for name, part in parts.items() if part.is_costly][1:]:
        parts[name].prepare()
        waiting[name] = _threads().submit(parts[name].grade, item, sample, trace_id)
    found = {name: part.grade(item, sample, trace_id) for name, part in parts.items() if name not in waiting}
    for name, future in waiting.items():
        is_ours = future.cancel()  # nobody has begun it
        found[name] = parts[name].grade(item, sample, trace_id) if is_ours else future.result()
    return {name: found[name] for name in parts}
