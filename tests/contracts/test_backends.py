"""One suite over every backend: what the interface promises, each asked of the real code against a process or a server.

The stages (conftest.py) are our own machine, a hosted provider, and another Studio behind its `/v1`.
"""

import json

import pytest

from jobs.backends.base import Capabilities
from jobs.backends.registry import BACKENDS, backend_get
from rftstudio.core.errors import UpstreamRefused, UserError
from tests.contracts.stages import Stage, ends, steps

REAL_ROWS = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["on_our_machine", "hosted", pytest.param("remote_studio", marks=REAL_ROWS)])
def stage(request) -> Stage:
    if request.param == "remote_studio":
        request.getfixturevalue("transactional_db")
    return request.getfixturevalue(request.param)


def test_every_backend_has_a_stage(request):
    assert {request.getfixturevalue(name).backend_name for name in ("on_our_machine", "hosted")} == set(BACKENDS)


def test_backend_says_who_it_is_and_what_it_can(stage):
    assert stage.backend.name == stage.backend_name
    assert stage.backend.label
    assert isinstance(stage.backend.capabilities, Capabilities)


def test_validate_names_what_is_missing(stage):
    assert stage.backend.validate(stage.spec()) == []
    problems = stage.backend.validate(stage.spec() | {"base_model": ""})
    assert problems
    assert problems[0].code
    assert problems[0].message


def test_nothing_is_known_of_a_run_before_its_start_and_its_cancel_is_done_at_once(stage):
    assert stage.events_and_cursor() == ([], 0)
    stage.backend.pause(stage.run)
    assert stage.backend.results(stage.run) == {}
    assert stage.backend.cancel(stage.run, grace=3.0)


def test_run_goes_to_its_end_with_progress_metrics_checkpoints_and_results(stage, tmp_path):
    stage.submit()
    events = stage.until_one("finished")
    assert steps(events) == [1, 2, 3, 4]
    assert ends(events) == ["succeeded"]
    assert events[-1]["type"] == "finished", "nothing comes after the end"
    assert events[-1]["error"] is None
    told = [event for event in events if event["type"] == "step"]
    assert {event["total_steps"] for event in told} == {4}, "progress can be told"
    assert all(0 <= event["metrics"]["train_mean_reward"] <= 1 for event in told)
    kept = [event for event in events if event["type"] == "checkpoint"]
    assert {event["step"] for event in kept} >= {4}
    assert all(event["path"] for event in kept)
    assert kept[-1]["validation_reward"] == pytest.approx(told[-1]["metrics"]["full_valid_mean_reward"])

    whole, end = stage.events_and_cursor()
    assert stage.events_and_cursor() == (whole, end), "asked twice, it answers the same"
    numbers = [event["seq"] for event in whole]
    assert len(numbers) == len(set(numbers))
    json.dumps(whole)
    stage.until(lambda _: stage.backend.cancel(stage.run, grace=3.0))  # there is soon nothing left to stop
    check_export(stage, kept[-1]["path"], tmp_path / "served")
    check_results(stage)


def check_export(stage, path, target):
    """Weights that a server can load, or a plain word that the provider keeps them."""
    if stage.backend.capabilities.gives_weights:
        found = stage.backend.export(stage.run, str(target.parent / "runs" / stage.run.job_id / path), target)
        assert (found / "config.json").is_file()
        assert not list(found.glob("optimizer*"))
        return
    with pytest.raises(UserError, match="keeps the weights"):
        stage.backend.export(stage.run, path, target)


def check_results(stage):
    """What the provider wrote about the run, or nothing where the journal is all there is."""
    if stage.backend.capabilities.is_local:
        assert stage.backend.results(stage.run) == {}
        return
    stage.until(lambda _: stage.backend.results(stage.run))
    (content,) = stage.backend.results(stage.run).values()
    head, *lines = content.decode().splitlines()
    assert head.split(",")[0] == "step"
    assert [line.split(",")[0] for line in lines] == ["1", "2", "3", "4"]


def test_poll_from_a_cursor_repeats_no_step(stage):
    stage.hold()
    stage.submit()
    stage.until_one("step")
    seen, cursor = stage.events_and_cursor()
    stage.release()
    stage.until_one("finished")
    later = steps(stage.events(cursor))
    assert not set(steps(seen)) & set(later)
    assert sorted(steps(seen) + later) == [1, 2, 3, 4]


def test_running_run_is_alive_and_adopted_by_whoever_asks_again(stage):
    """The worker that started it died before it could note that: the next one finds the same run and follows it."""
    stage.hold()
    first = stage.submit()
    stage.until_one("step")
    assert stage.backend.health(stage.run).is_alive
    stage.run = stage.another_worker()
    second = stage.submit()
    assert second.external_id == first.external_id
    assert stage.backend.health(stage.run).is_alive
    stage.release()
    assert steps(stage.until_one("finished")) == [1, 2, 3, 4]
    assert stage.starts() == 1


def test_paused_run_goes_on_to_the_end_without_losing_or_doubling_a_step(stage):
    stage.hold()
    stage.submit()
    stage.until_one("step")
    for _ in range(3):
        stage.backend.pause(stage.run)  # as each look does until it has paused
    stage.release()
    events = stage.until_one("finished")
    assert ends(events) == ["paused"]
    assert set(steps(events)) < {1, 2, 3, 4}
    stage.submit()
    events = stage.until(lambda events: "succeeded" in ends(events))
    assert steps(events) == [1, 2, 3, 4]


def test_cancel_ends_the_run_and_may_be_asked_again(stage):
    stage.hold()
    stage.submit()
    stage.until_one("step")
    stage.until(lambda _: stage.backend.cancel(stage.run, grace=3.0), seconds=10)
    assert stage.backend.cancel(stage.run, grace=3.0)
    events = stage.until_one("finished")
    assert ends(events) == ["cancelled"]
    before = len(steps(events))
    stage.advance()
    assert len(steps(stage.events())) == before, "nothing is trained after the stop"


def test_refusal_comes_with_its_code_and_words(stage):
    """Said at once by a service that will not have the job, or as the run's end by a trainer that cannot."""
    stage.deny()
    if stage.backend.capabilities.is_local:
        stage.submit()
        closing = stage.until_one("finished")[-1]
        assert closing["status"] == "failed"
        code, words = closing["error"]["code"], closing["error"]["message"]
    else:
        with pytest.raises(UpstreamRefused) as refusal:
            stage.submit()
        code, words = refusal.value.code, str(refusal.value)
        assert refusal.value.fix, "and with what to do next"
    assert code == stage.denied_with
    assert len(words.split()) > 3


def test_registry_refuses_a_backend_that_does_not_exist():
    with pytest.raises(UserError, match="Use one of"):
        backend_get("magic")
