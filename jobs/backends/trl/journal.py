"""The run's journal: one JSON line for each event, only ever appended. The web side reads it home by cursor.

A crash may leave half a line; opening the journal anew cuts it off before anything is appended.
"""

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class History:
    """What earlier attempts left in the journal."""

    last_seq: int = 0
    attempts: int = 0
    seconds: float = 0.0
    finished: dict[str, Any] | None = None  # the last finished event, if nothing follows it
    rollouts: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # train step → rollouts in the lineage
    steps: set[int] = field(default_factory=set)  # train steps of the lineage that were completed

    def read(self, event: dict[str, Any]) -> None:
        """Take in the next event; a restart drops the train steps it will run again."""
        kind, step = event["type"], event.get("step", 0)
        self.last_seq = event["seq"]
        self.finished = event if kind == "finished" else None
        if kind == "started":
            self.attempts = event["attempt"]
            self.drop_after(event["from_step"])
        elif kind == "rollout" and event["phase"] == "train":
            self.rollouts[step] += 1
        elif kind == "step":
            self.steps.add(step)

    def drop_after(self, step: int) -> None:
        self.steps = {number for number in self.steps if number <= step}
        for later in [number for number in self.rollouts if number > step]:
            del self.rollouts[later]


def events_read(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a journal. A last line without its end is left out."""
    if not path.is_file():
        return
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield json.loads(line)


def history_read(path: Path) -> History:
    """Read the journal through."""
    history, began, last = History(), 0.0, 0.0
    for event in events_read(path):
        if event["type"] == "started":
            history.seconds += last - began
            began = event["at"]
        last = event["at"]
        history.read(event)
    history.seconds += last - began
    return history


class Journal:
    """Appends events. `flush` makes what was written so far survive a crash of the machine. A mute journal knows the
    history and writes nothing: of several training processes only the first speaks."""

    def __init__(self, path: Path, *, is_mute: bool = False) -> None:
        self.history = history_read(path)
        self.seq = self.history.last_seq
        self.is_mute = is_mute
        self.is_closed = False  # the last word is said
        self.lock = threading.RLock()  # held for a block that must stand whole, such as a train step's
        if not is_mute:
            self._file = path.open("ab")
            self._cut_half_line(path)

    def _cut_half_line(self, path: Path) -> None:
        size = path.stat().st_size
        if not size:
            return
        with path.open("rb") as data:
            data.seek(max(0, size - 1))
            if data.read(1) == b"\n":
                return
            data.seek(0)
            whole = data.read().rfind(b"\n") + 1
        os.truncate(path, whole)

    def write(self, type: str, **fields: Any) -> None:
        """Append one event; it reaches the system, though not yet the disk, before this returns."""
        with self.lock:
            self.seq += 1
            event = {"seq": self.seq, "at": time.time(), "type": type, **fields}
            text = json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            if not self.is_mute:
                self._file.write(text.encode("utf-8", "replace") + b"\n")
                self._file.flush()
            self.history.read(event)

    def log(self, level: str, message: str) -> None:
        self.write("log", level=level, message=message)

    def flush(self) -> None:
        if not self.is_mute:
            os.fsync(self._file.fileno())

    def rollouts_up_to(self, step: int) -> int:
        """Train rollouts of the final lineage: those of complete train steps, each counted once."""
        return sum(count for number, count in self.history.rollouts.items() if number <= step)
