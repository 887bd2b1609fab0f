"""Waking a worker: a broker that is away refuses nobody."""

import ast
from pathlib import Path

import pytest
from celery import shared_task

from rftstudio.core.queueing import queue

ROOT = Path(__file__).parents[2]
DONE: list[int] = []


@shared_task(name="tests.note")
def note(number: int) -> None:
    DONE.append(number)


@pytest.fixture
def no_broker(broker_away):
    broker_away(note)
    DONE.clear()


@pytest.mark.django_db
def test_what_a_sweep_finds_waits_for_it_while_the_broker_is_away(no_broker, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        queue(note, 1)
    assert DONE == []


@pytest.mark.django_db
def test_what_no_sweep_would_find_is_done_at_once(no_broker, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        queue(note, 2, is_swept=False)
        assert DONE == []
    assert DONE == [2]


SENDS = {"delay", "delay_on_commit", "apply_async", "apply_async_on_commit"}


def test_nothing_but_sweeps_sends_a_task_past_the_queue():
    """A bare `delay` in a request is a 500 while the broker is away."""
    found = []
    rooms = [path for room in ("rftstudio", "datasets", "graders", "jobs") for path in (ROOT / room).rglob("*.py")]
    for path in rooms:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and not node.name.endswith("_sweep") and path.stem != "queueing":
                sent = [one for one in ast.walk(node) if isinstance(one, ast.Attribute) and one.attr in SENDS]
                found += [f"{path.relative_to(ROOT)}:{one.lineno}" for one in sent]
    assert found == []
