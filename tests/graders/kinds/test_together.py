"""Parts that wait for a judge wait together."""

import threading
import time

import pytest

from graders.kinds import together
from graders.types import Grade, Sample


class Part:
    def __init__(self, reward: float, *, is_costly: bool = False, seconds: float = 0.0) -> None:
        self.reward, self.is_costly, self.seconds = reward, is_costly, seconds
        self.prepared_by: list[str] = []
        self.graded_by = ""

    def prepare(self) -> None:
        self.prepared_by.append(threading.current_thread().name)

    def grade(self, item, sample, trace_id=""):
        self.graded_by = threading.current_thread().name
        time.sleep(self.seconds)
        return Grade(self.reward)


def rewards(parts):
    return {name: grade.reward for name, grade in together.graded_together(parts, {}, Sample(), "t").items()}


def test_order_is_that_of_the_parts():
    parts = {"a": Part(0.1, is_costly=True), "b": Part(0.2), "c": Part(0.3, is_costly=True), "d": Part(0.4)}
    assert list(rewards(parts).items()) == [("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", 0.4)]


def test_costly_parts_wait_at_the_same_time():
    meeting = threading.Barrier(3, timeout=10)

    class Meets(Part):
        def grade(self, item, sample, trace_id=""):
            meeting.wait()  # breaks unless all three are here together
            return super().grade(item, sample, trace_id)

    assert rewards({name: Meets(1.0, is_costly=True) for name in "abc"}) == dict.fromkeys("abc", 1.0)


def test_cheap_parts_stay_on_the_callers_thread():
    parts = {"judge": Part(1.0, is_costly=True), "other": Part(1.0, is_costly=True), "python": Part(0.5)}
    rewards(parts)
    here = threading.current_thread().name
    assert parts["python"].graded_by == parts["judge"].graded_by == here
    assert parts["other"].prepared_by == [here]


def test_many_callers_with_few_threads_all_end(monkeypatch):
    monkeypatch.setattr(together, "_pool", together.ThreadPoolExecutor(1))
    found = []

    def one() -> None:
        parts = {name: Part(1.0, is_costly=True, seconds=0.01) for name in "abcd"}
        found.append(sum(rewards(parts).values()))

    callers = [threading.Thread(target=one) for _ in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    assert found == [4.0] * 12


@pytest.mark.parametrize("count", [0, 1])
def test_without_several_costly_parts_no_thread_is_started(monkeypatch, count):
    monkeypatch.setattr(together, "_threads", lambda: pytest.fail("a thread was asked for"))
    assert rewards({"a": Part(1.0, is_costly=bool(count)), "b": Part(0.0)}) == {"a": 1.0, "b": 0.0}
