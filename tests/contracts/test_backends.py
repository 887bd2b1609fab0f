"""One suite over every backend: what the interface promises, each asked of the real code against a process or a server."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from jobs.backends.base import Capabilities, Run, RunSpec
from jobs.backends.registry import BACKENDS, backend_get
from rftstudio.core.errors import UserError
from tests.fakes.hosted import HostedService


@dataclass
class Stage:
    """A backend with what it works on; `advance` lets time pass for it."""

    name: str
    run: Run
    advance: Callable[[], None]
    slow: Callable[[], None]
    starts: Callable[[], int]

    @property
    def backend(self):
        return backend_get(self.name)

    def work(self, steps: int = 4) -> RunSpec:
        agent = {
            "system_prompt": "Answer.",
            "tools": [],
            "limits": {"max_steps": 4},
            "sampling": {},
            "response_format": None,
        }
        plan = {"max_steps": steps, "batch_size": 2, "group_size": 2, "eval_interval": 1, "eval_samples": 1,
                "max_eval_items": 2}  # fmt: skip
        grader = {
            "type": "string_check",
            "name": "x",
            "operation": "eq",
            "input": "{{sample.output_text}}",
            "reference": "1",
        }
        spec = {"spec_version": 1, "job_id": self.run.job_id, "base_model": "tiny", "seed": 1, "agent": agent,
                "grader": grader, "pass_threshold": 0.5, "plan": plan, "hyperparameters": {"n_epochs": 1}}  # fmt: skip
        rows = [
            {"key": f"k{n}", "item": {"messages": [{"role": "user", "content": str(n)}], "answer": str(n)}}
            for n in range(4)
        ]
        return RunSpec(spec, iter(rows), iter(rows[:2]))

    def submit(self) -> Run:
        self.run = self.backend.submit(self.run, self.work())
        return self.run

    def all_events(self, cursor: int = 0) -> tuple[list[dict[str, Any]], int]:
        events = []
        for chunk in self.backend.poll(self.run, cursor):
            events += chunk.events
            cursor = chunk.cursor
        return events, cursor

    def until(self, type: str, seconds: float = 30.0) -> list[dict[str, Any]]:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.advance()
            events, _ = self.all_events()
            if any(event["type"] == type for event in events):
                return events
            time.sleep(0.05)
        raise AssertionError(f"no {type} event")


@pytest.fixture
def trl(trainer, tmp_path):
    run = Run("ftjob-contract", run_dir=str(tmp_path / "runs" / "ftjob-contract"))

    def starts() -> int:
        path = tmp_path / "runs/ftjob-contract/journal.jsonl"
        return sum('"started"' in line for line in path.read_text().splitlines()) if path.exists() else 0

    return Stage("trl", run, lambda: None, lambda: trainer(step_seconds=0.4), starts)


@pytest.fixture
def openai(settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    with HostedService() as service:
        run = Run("ftjob-contract", connection={"base_url": service.url + "/v1", "api_key": "sk-fake"})
        stage = Stage("openai", run, service.advance, lambda: None, lambda: len(service.jobs))
        stage.service = service
        yield stage


@pytest.fixture(params=sorted(BACKENDS))
def stage(request) -> Stage:
    return request.getfixturevalue(request.param)


def test_backend_says_who_it_is_and_what_it_can(stage):
    assert stage.backend.name == stage.name
    assert stage.backend.label
    assert isinstance(stage.backend.capabilities, Capabilities)


def test_validate_names_what_is_missing(stage):
    spec = stage.work().spec
    assert stage.backend.validate(spec) == []
    problems = stage.backend.validate(spec | {"base_model": ""})
    assert problems
    assert problems[0].code
    assert problems[0].message


def test_poll_before_submit_is_empty(stage):
    assert stage.all_events() == ([], 0)


def test_run_goes_to_its_end_with_steps_and_checkpoints_in_order(stage):
    stage.submit()
    events = stage.until("finished")
    steps = [event["step"] for event in events if event["type"] == "step"]
    assert steps == [1, 2, 3, 4]
    finished = [event for event in events if event["type"] == "finished"]
    assert [event["status"] for event in finished] == ["succeeded"]
    assert events[-1]["type"] == "finished", "nothing comes after the end"
    checkpoints = [event for event in events if event["type"] == "checkpoint"]
    assert {event["step"] for event in checkpoints} >= {4}
    assert all(event["path"] for event in checkpoints)
    metrics = next(event["metrics"] for event in events if event["type"] == "step")
    assert metrics["train_mean_reward"] is not None


def test_poll_is_monotonic_and_repeatable(stage):
    stage.submit()
    stage.until("finished")
    whole, end = stage.all_events()
    again, same_end = stage.all_events()
    assert (again, same_end) == (whole, end)
    numbers = [event["seq"] for event in whole]
    assert len(numbers) == len(set(numbers))
    json.dumps(whole)


def test_poll_from_a_cursor_repeats_no_step(stage):
    stage.submit()
    first = stage.until("step")
    events, cursor = stage.all_events()
    seen = {event["step"] for event in events if event["type"] == "step"}
    assert first
    stage.until("finished")
    later = [event["step"] for event in stage.all_events(cursor)[0] if event["type"] == "step"]
    assert not seen & set(later)
    assert sorted(seen | set(later)) == [1, 2, 3, 4]


def test_submit_twice_starts_one_run(stage):
    stage.slow()
    first = stage.submit()
    stage.until("log" if stage.name == "openai" else "started")
    second = stage.backend.submit(Run(first.job_id, run_dir=first.run_dir, connection=first.connection), stage.work())
    assert second.external_id == first.external_id
    stage.until("finished")
    assert stage.starts() == 1


def test_pause_then_submit_goes_on_to_the_end(stage):
    stage.slow()
    stage.submit()
    stage.until("step")
    for _ in range(2):
        stage.backend.pause(stage.run)
    events = stage.until("finished")
    assert [event["status"] for event in events if event["type"] == "finished"] == ["paused"]
    done = {event["step"] for event in events if event["type"] == "step"}
    assert done < {1, 2, 3, 4}
    stage.submit()
    limit = time.monotonic() + 30
    while not any(event.get("status") == "succeeded" for event in stage.all_events()[0]):
        assert time.monotonic() < limit
        stage.advance()
        time.sleep(0.05)
    steps = [event["step"] for event in stage.all_events()[0] if event["type"] == "step"]
    assert steps == [1, 2, 3, 4], "no train step is lost or done twice"


def test_cancel_ends_the_run_and_may_be_asked_again(stage):
    stage.slow()
    stage.submit()
    stage.until("step")
    limit = time.monotonic() + 10
    while not stage.backend.cancel(stage.run, grace=3.0):
        assert time.monotonic() < limit, "ten seconds are too long"
        time.sleep(0.05)
    assert stage.backend.cancel(stage.run, grace=3.0)
    finished = [event for event in stage.until("finished") if event["type"] == "finished"]
    assert [event["status"] for event in finished] == ["cancelled"]


def test_cancel_of_a_run_that_never_started_is_done_at_once(stage):
    assert stage.backend.cancel(stage.run, grace=3.0)


def test_health_of_a_running_run_is_good(stage):
    stage.slow()
    stage.submit()
    stage.until("step")
    assert stage.backend.health(stage.run).is_alive


def test_registry_refuses_a_backend_that_does_not_exist():
    with pytest.raises(UserError, match="Use one of"):
        backend_get("magic")
