"""A backend with what it works on, for the suite in test_backends.py: its run, how time passes for it, how it is refused."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from jobs.backends.base import Backend, Run, RunSpec
from jobs.backends.registry import backend_get

AGENT = {"system_prompt": "Answer.", "tools": [], "limits": {"max_steps": 4}, "sampling": {}, "response_format": None}
GRADER = {"type": "string_check", "name": "x", "operation": "eq", "input": "{{sample.output_text}}", "reference": "1"}
PLAN = {"max_steps": 4, "batch_size": 3, "group_size": 2, "eval_interval": 1, "eval_samples": 1, "max_eval_items": 2}
HYPER = {"n_epochs": 1, "batch_size": 3, "eval_interval": 1, "eval_samples": 1}


def nothing() -> None:
    """For a backend that needs no such push."""


@dataclass
class Stage:
    """`advance` lets time pass, `deny` makes the next start be refused.

    `hold` makes the second train step last until `release`, where time passes by itself.
    """

    backend_name: str
    run: Run
    starts: Callable[[], int]
    deny: Callable[[], None]
    denied_with: str
    advance: Callable[[], None] = nothing
    hold: Callable[[], None] = nothing
    release: Callable[[], None] = nothing

    @property
    def backend(self) -> Backend:
        return backend_get(self.backend_name)

    def spec(self) -> dict[str, Any]:
        return {
            "spec_version": 1, "job_id": self.run.job_id, "base_model": "tiny", "seed": 1, "agent": AGENT,
            "grader": GRADER, "pass_threshold": 0.5, "plan": PLAN, "hyperparameters": HYPER,
        }  # fmt: skip

    def work(self) -> RunSpec:
        """Four train steps: twelve rows, three a step."""
        return RunSpec(self.spec(), iter(rows("train", 12)), iter(rows("check", 10)))

    def submit(self) -> Run:
        self.run = self.backend.submit(self.run, self.work())
        return self.run

    def another_worker(self) -> Run:
        """The run as whoever died between starting it and noting that it started knows it."""
        return replace(self.run, external_id="", process={})

    def events(self, cursor: int = 0) -> list[dict[str, Any]]:
        return self.events_and_cursor(cursor)[0]

    def events_and_cursor(self, cursor: int = 0) -> tuple[list[dict[str, Any]], int]:
        events = []
        for chunk in self.backend.poll(self.run, cursor):
            events += chunk.events
            cursor = chunk.cursor
        return events, cursor

    def until(self, wanted: Callable[[list[dict[str, Any]]], Any], seconds: float = 60.0) -> list[dict[str, Any]]:
        """Look until the events are as wanted."""
        limit = time.monotonic() + seconds
        while not wanted(events := self.events()):
            assert time.monotonic() < limit, f"waited too long; last of {len(events)}: {events[-1:]}"
            self.advance()
            time.sleep(0.02)
        return events

    def until_one(self, type: str) -> list[dict[str, Any]]:
        return self.until(lambda events: any(event["type"] == type for event in events))


def rows(prefix: str, count: int) -> list[dict[str, Any]]:
    return [
        {"key": f"{prefix}{n}", "item": {"messages": [{"role": "user", "content": f"{prefix} {n}"}], "answer": str(n)}}
        for n in range(count)
    ]


def steps(events: list[dict[str, Any]]) -> list[int]:
    return [event["step"] for event in events if event["type"] == "step"]


def ends(events: list[dict[str, Any]]) -> list[str]:
    return [event["status"] for event in events if event["type"] == "finished"]
