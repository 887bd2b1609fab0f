"""Obeying and showing life: the control file, signals, the heartbeat and the watch on whoever supervises.

One thread does it all, so that a long step neither stops the heart nor makes a cancel wait. Standard library only.
"""

import math
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobs.rollouts.policies.lifeline import supervisor_is_gone

POLL_SECONDS = 0.2
BEAT_SECONDS = 1.0
#: A cancel that the train step at work has not seen by then (a long update, a grader that does not answer, another
#: process that is waited for) is carried out by the thread. Less than the web side waits before it kills.
OBEY_SECONDS = 2.5


class Cancelled(Exception):
    """The run was told to cancel."""


class Control:
    """What the run was told. `pause` is obeyed at the end of a train step, `cancel` as soon as it is seen, or without it."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.cancel = threading.Event()
        self.pause = threading.Event()
        self.reason = ""  # why it pauses: control, sigterm, supervisor_gone
        self.when_overdue: Callable[[], None] = lambda: None  # says the last word and ends the process
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="control", daemon=True)

    def start(self) -> None:
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, self._on_sigterm)
        self._look()
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(timeout=2)

    def should_cancel(self) -> bool:
        return self.cancel.is_set()

    def check_cancel(self) -> None:
        if self.cancel.is_set():
            raise Cancelled

    def ask_pause(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.pause.set()

    def _on_sigterm(self, *_: Any) -> None:
        self.ask_pause("sigterm")

    def _look(self) -> None:
        try:
            word = (self.run_dir / "control").read_text(encoding="utf-8").strip()
        except OSError:
            word = ""
        if word == "cancel":
            self.cancel.set()
        elif word == "pause":
            self.ask_pause("control")

    def _watch(self) -> None:
        beat = self.run_dir / "heartbeat"
        next_beat = 0.0
        overdue = math.inf
        while not self._end.wait(POLL_SECONDS):
            self._look()
            if self.cancel.is_set():
                overdue = min(overdue, time.monotonic() + OBEY_SECONDS)
            if time.monotonic() >= overdue:
                self.when_overdue()
            if time.monotonic() >= next_beat:
                with suppress(OSError):  # a full disk must not stop this thread: it also hears the cancel
                    beat.touch()
                next_beat = time.monotonic() + BEAT_SECONDS
                if supervisor_is_gone():
                    self.ask_pause("supervisor_gone")
