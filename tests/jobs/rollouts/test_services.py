"""Batches: ordered, claimed, run, stored, brought home, cancelled and repaired."""

import asyncio
import json
import threading
import time
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.utils import timezone

from graders.types import Grade
from jobs.rollouts import claims, running, tasks
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory
from jobs.rollouts.models import Rollout, RolloutBatch, Step
from jobs.rollouts.selectors import batch_counts
from jobs.rollouts.services import batch_cancel, batch_create, batch_record, rollouts_run, rollouts_sweep
from rftstudio.core import queueing
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.usage.models import Price, Unit, UsageRecord
from tests.factories.agents import AgentVersionFactory
from tests.fakes.server import Reply

CASES = Path(__file__).parents[2] / "data" / "cases" / "inputs"
Status = Rollout.Status


@pytest.fixture
def woken(monkeypatch) -> list:
    """Ids of batches that workers were woken for."""
    seen: list = []
    monkeypatch.setattr(tasks.rollouts_run, "apply_async", lambda args, **options: seen.append(args[0]))
    return seen


def record(key="item-0", index=0, trace="trace_a", reward=1.0, text="0", **extra) -> RolloutRecord:
    call = ToolCallRecord("c1", "lookup", '{"good": "g0"}', "0", milliseconds=2.0)
    steps = [StepRecord(0, tool_calls=[call], output_tokens=3), StepRecord(1, text=text, output_tokens=2)]
    trajectory = Trajectory(steps, "answered", text, started_at=1_790_000_000.0, milliseconds=12.0)
    return RolloutRecord(key, index, trace, trajectory, {"reward": reward, "sub_rewards": {"exact": reward}}, **extra)


def test_batch_is_items_times_samples(batch_of):
    batch = batch_of()
    assert batch_counts(batch)["queued"] == batch_counts(batch)["total"] == 8
    assert batch.dataset_version is not None
    assert len(set(batch.rollouts.values_list("trace_id", flat=True))) == 8


def test_batch_create_wakes_a_worker_once_it_is_stored(batch_of, django_capture_on_commit_callbacks, woken):
    with django_capture_on_commit_callbacks(execute=True):
        batch = batch_of()
    assert woken == [batch.pk]


def test_batch_create_by_a_viewer_is_refused(viewer, agent_version, grader_version, items):
    with pytest.raises(NotAllowed):
        batch_create(
            actor=viewer,
            kind="evaluation",
            source="e",
            items=items,
            agent_version=agent_version,
            grader_version=grader_version,
            model=agent_version.model,
        )


def test_batch_create_with_a_foreign_agent_is_refused(batch_of):
    with pytest.raises(NotFound):
        batch_of(agent_version=AgentVersionFactory())


def test_batch_to_run_without_a_model_is_refused(batch_of):
    with pytest.raises(UserError, match="need an agent version"):
        batch_of(model=None)


def test_train_step_batch_is_made_once(batch_of):
    first = batch_of(kind="train_step", source="ftjob-1", train_step=3, queue=False)
    again = batch_of(kind="train_step", source="ftjob-1", train_step=3, queue=False)
    assert first == again
    assert batch_counts(first)["total"] == 0


def test_rollouts_run_stores_rollouts_with_steps_calls_and_grades(batch_of, grader, model_server):
    batch = batch_of()
    assert rollouts_run(batch_id=batch.pk) == 8
    rollouts = list(batch.rollouts.order_by("id"))
    assert {(r.status, r.stop_reason, r.reward, r.passed) for r in rollouts} == {("done", "answered", 1.0, True)}
    one = rollouts[2]
    assert (one.answer, one.tool_path, one.n_steps, one.n_tool_calls) == ("1", "lookup>answer", 2, 1)
    assert (one.input_tokens, one.output_tokens, one.sub_rewards) == (40, 14, {"exact": 1.0})
    assert one.lease_until is None
    assert one.milliseconds > 0
    first, last = one.steps.order_by("index")
    assert first.tool_calls[0]["name"] == "lookup"
    assert first.tool_calls[0]["result"] == "1"
    assert last.text == "1"
    assert set(grader.graded) == {r.trace_id for r in rollouts}
    assert grader.closed == 1
    sent = model_server.requests[0].json()
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["lookup"]
    assert sent["messages"][0] == {"role": "system", "content": "Answer with a number."}


def test_rollouts_run_twice_does_nothing_the_second_time(batch_of, grader, model_server):
    batch = batch_of()
    tasks.rollouts_run(batch.pk)
    asked = len(model_server.requests)
    before = list(Rollout.objects.values())
    tasks.rollouts_run(batch.pk)
    assert len(model_server.requests) == asked
    assert list(Rollout.objects.values()) == before
    assert Step.objects.count() == 16


def test_rollouts_run_for_a_batch_that_is_gone_is_no_error(db):
    assert rollouts_run(batch_id=12345) == 0


def test_rollout_without_a_grade_is_ungraded_not_zero(batch_of, grader):
    grader.answers = {
        "1": Grade(None, errors={"other_error": True}, details="The judge was silent."),
        "2": ValueError(),
    }
    batch = batch_of(samples_per_item=1)
    rollouts_run(batch_id=batch.pk)
    silent, broken = batch.rollouts.filter(group_key__in=["item-1", "item-2"]).order_by("id")
    assert (silent.status, silent.stop_reason, silent.reward, silent.passed) == ("failed", "grader_failed", None, None)
    assert silent.error == "The judge was silent."
    assert silent.answer == "1"
    assert "ValueError" in broken.error
    assert batch.rollouts.filter(reward=1.0).count() == 2


def test_failure_of_one_rollout_leaves_the_others(batch_of, grader, model_server):
    model_server.script = [Reply.of({"error": {"message": "no such model"}}, 404)]
    batch = batch_of()
    rollouts_run(batch_id=batch.pk)
    failed = batch.rollouts.get(status="failed")
    assert failed.stop_reason == "model_failed"
    assert "no such model" in failed.error
    assert failed.reward is None
    assert batch_counts(batch)["done"] == 7


def test_grader_that_cannot_be_compiled_is_an_error_before_any_call(batch_of, model_server, monkeypatch):
    def refuse(version):
        raise UserError("The grader is broken.")

    monkeypatch.setattr(running, "grader_compiled", refuse)
    with pytest.raises(UserError):
        rollouts_run(batch_id=batch_of().pk)
    assert model_server.requests == []


def test_slow_rollout_does_not_hold_up_the_others(batch_of, grader, model_server, monkeypatch):
    """The first model call is answered only when all other rollouts are stored."""
    batch = batch_of(samples_per_item=5)
    released, answer = threading.Event(), model_server.handler
    held: list = []

    async def handler(request):
        if not held:
            held.append(request)
            while not released.is_set():
                await asyncio.sleep(0.01)
        return answer(request)

    def look(self):
        if batch_counts(batch)["done"] == 19:
            released.set()
        real(self)

    real = running._Turn._look
    model_server.handler = handler
    monkeypatch.setattr(running._Turn, "_look", look)
    assert rollouts_run(batch_id=batch.pk, limit=2) == 20
    assert batch_counts(batch)["done"] == 20


def test_concurrency_is_bounded(batch_of, grader, model_server):
    model_server.seconds = 0.02
    batch = batch_of(samples_per_item=5)
    RolloutBatch.objects.filter(pk=batch.pk).update(concurrency=3)
    rollouts_run(batch_id=batch.pk, limit=64)
    assert model_server.open_most == 3


def test_turn_that_is_over_leaves_the_rest_to_the_next_task(batch_of, grader, monkeypatch):
    batch = batch_of()
    woken = []
    monkeypatch.setattr(queueing, "queue", lambda task, batch_id: woken.append(batch_id))
    monkeypatch.setattr(running, "TURN_SECONDS", 0.0)
    real = running._Turn._claim

    def once(self):
        self.ends_at += 100 if not self.in_flight and not self.stored else -1000
        real(self)

    monkeypatch.setattr(running._Turn, "_claim", once)
    assert rollouts_run(batch_id=batch.pk, limit=2) == 2
    assert woken == [batch.pk]
    assert batch_counts(batch)["queued"] == 6


def test_claim_is_exclusive(batch_of):
    batch = batch_of()
    first, second = claims.claim(batch, 5), claims.claim(batch, 5)
    assert len(first) == 5
    assert len(second) == 3
    assert not {r.pk for r in first} & {r.pk for r in second}
    assert claims.claim(batch, 5) == []


@pytest.mark.django_db(transaction=True)
def test_claims_of_many_workers_at_once_never_overlap(batch_of):
    batch = batch_of(samples_per_item=25)
    taken: list[int] = []

    def work():
        from django.db import connection

        while rows := claims.claim(batch, 7):
            taken.extend(row.pk for row in rows)
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(taken) == len(set(taken)) == 100


def test_sweep_frees_rollouts_of_dead_workers(batch_of, woken):
    batch = batch_of()
    claims.claim(batch, 3)
    Rollout.objects.filter(status="running").update(lease_until=timezone.now() - timedelta(seconds=1))
    assert rollouts_sweep() == 3
    assert batch_counts(batch)["queued"] == 8
    assert woken == [batch.pk]


def test_sweep_leaves_a_living_worker_alone(batch_of, woken):
    batch = batch_of()
    claims.claim(batch, 3)
    assert rollouts_sweep() == 0
    assert woken == []


def test_sweep_fails_a_rollout_whose_workers_die_three_times(batch_of, woken):
    batch = batch_of(samples_per_item=1)
    for _ in range(3):
        claims.claim(batch, 4)
        Rollout.objects.filter(status="running").update(lease_until=timezone.now() - timedelta(seconds=1))
        rollouts_sweep()
    assert set(batch.rollouts.values_list("status", "stop_reason", "reward")) == {("failed", "studio_failed", None)}
    assert "lost 3 times" in batch.rollouts.first().error


def test_result_of_a_worker_that_was_given_up_is_not_stored(batch_of, grader, woken):
    """A late worker's outcome carries an old attempt: whoever claimed the row since decides."""
    batch = batch_of(samples_per_item=1)
    row = claims.claim(batch, 1)[0]
    late = running.Outcome(running.Work(row.pk, row.attempt, row.trace_id, {}), record().trajectory, {"reward": 0.0})
    claims.hand_back([row.pk])
    claims.claim(batch, 1)
    assert running.outcomes_store(batch, [late]) == 0
    assert Step.objects.count() == 0


def test_work_is_handed_back_when_storing_breaks(batch_of, grader, monkeypatch):
    def broken(batch, outcomes):
        raise OSError("disk full")

    monkeypatch.setattr(running, "outcomes_store", broken)
    batch = batch_of()
    with pytest.raises(OSError, match="disk full"):
        rollouts_run(batch_id=batch.pk)
    assert batch_counts(batch)["queued"] == 8


def test_cancel_ends_queued_rollouts_and_keeps_finished_ones(batch_of, grader):
    batch = batch_of()
    Rollout.objects.filter(pk=batch.rollouts.first().pk).update(status="done", stop_reason="answered")
    assert batch_cancel(batch=batch) == 7
    assert batch_counts(batch) | {"total": 0} == {
        "queued": 0, "running": 0, "done": 1, "failed": 0, "cancelled": 7, "total": 0,
    }  # fmt: skip
    assert rollouts_run(batch_id=batch.pk) == 0


def test_cancel_stops_running_rollouts_within_seconds(batch_of, grader, model_server, monkeypatch):
    model_server.seconds = 30
    batch = batch_of()
    real = running._Turn._look

    def cancel_then_look(self):
        batch_cancel(batch=batch)
        real(self)

    monkeypatch.setattr(running._Turn, "_look", cancel_then_look)
    started = time.monotonic()
    rollouts_run(batch_id=batch.pk, limit=3)
    assert time.monotonic() - started < 6
    assert batch_counts(batch)["cancelled"] == 8
    asked = len(model_server.requests)
    assert asked <= 3


def test_cancelled_batch_of_a_dead_worker_is_settled_by_the_sweep(batch_of, woken):
    batch = batch_of()
    claims.claim(batch, 2)
    batch_cancel(batch=batch)
    Rollout.objects.filter(status="running").update(lease_until=timezone.now() - timedelta(seconds=1))
    rollouts_sweep()
    assert batch_counts(batch)["cancelled"] == 8
    assert woken == []


def test_usage_is_counted_once_and_priced(batch_of, grader):
    now = timezone.now()
    Price.objects.create(unit=Unit.INPUT_TOKEN, subject="fake-model", usd="0.001", valid_from=now - timedelta(days=9))
    Price.objects.create(unit=Unit.INPUT_TOKEN, subject="fake-model", usd="0.002", valid_from=now - timedelta(days=1))
    Price.objects.create(unit=Unit.INPUT_TOKEN, subject="fake-model", usd="9", valid_from=now + timedelta(days=1))
    Price.objects.create(unit=Unit.OUTPUT_TOKEN, subject="*", usd="0.01", valid_from=now - timedelta(days=9))
    batch = batch_of(samples_per_item=1)
    rollouts_run(batch_id=batch.pk)
    records = UsageRecord.objects.filter(batch_source="evalrun_1")
    assert records.count() == 8
    assert {r.usd for r in records.filter(unit=Unit.INPUT_TOKEN)} == {Decimal("0.08")}
    assert set(batch.rollouts.values_list("cost_usd", flat=True)) == {Decimal("0.22")}


def test_usage_without_a_price_is_counted_not_priced(batch_of, grader):
    batch = batch_of(samples_per_item=1)
    rollouts_run(batch_id=batch.pk)
    assert set(UsageRecord.objects.values_list("usd", flat=True)) == {None}
    assert set(batch.rollouts.values_list("cost_usd", flat=True)) == {None}


def test_record_brings_a_rollout_home(batch_of, items):
    batch = batch_of(kind="train_step", source="ftjob-1", train_step=1, queue=False)
    assert batch_record(batch=batch, records=[record(advantage=0.5, extra={"lr": 1})]) == 1
    row = batch.rollouts.get()
    assert row.item == items[0]
    assert (row.title, row.reward, row.passed, row.advantage) == ("g0?", 1.0, True, 0.5)
    assert (row.status, row.tool_path, row.extra) == ("done", "lookup>answer", {"lr": 1})
    assert [s.text for s in row.steps.order_by("index")] == ["", "0"]


def test_record_twice_is_stored_once_and_another_body_is_a_conflict(batch_of):
    batch = batch_of(kind="train_step", source="ftjob-1", train_step=1, queue=False)
    posts = [json.loads(line) for line in (CASES / "c094_twice.jsonl").read_text().splitlines()]
    first, again, other = [record(post["prompt_id"], 0, post["rollout_id"], post["reward"]) for post in posts]
    assert batch_record(batch=batch, records=[first]) == 1
    pk = batch.rollouts.get().pk
    assert batch_record(batch=batch, records=[again]) == 0
    with pytest.raises(Conflict, match="other content"):
        batch_record(batch=batch, records=[other])
    assert batch.rollouts.get().pk == pk
    assert batch.rollouts.get().reward == 1.0


def test_record_with_replace_takes_the_place_of_the_earlier_one(batch_of):
    batch = batch_of(kind="train_step", source="ftjob-1", train_step=1, queue=False)
    batch_record(batch=batch, records=[record(), record("item-1", 0, "trace_b")])
    assert (
        batch_record(
            batch=batch, records=[record(reward=0.0, trace="trace_c"), record("item-1", 0, "trace_b")], replace=True
        )
        == 1
    )
    assert sorted(batch.rollouts.values_list("group_key", "reward")) == [("item-0", 0.0), ("item-1", 1.0)]
    assert Step.objects.count() == 4


def test_record_same_key_twice_in_one_call(batch_of):
    batch = batch_of(kind="train_step", source="ftjob-1", train_step=1, queue=False)
    assert batch_record(batch=batch, records=[record(), record()]) == 1
    with pytest.raises(Conflict):
        batch_record(batch=batch, records=[record("item-1", trace="t1"), record("item-1", trace="t2")])


def test_record_with_a_trace_of_another_rollout_is_refused_whole(batch_of):
    batch = batch_of(kind="train_step", source="ftjob-1", train_step=1, queue=False)
    batch_record(batch=batch, records=[record()])
    with pytest.raises(Conflict, match="trace"):
        batch_record(batch=batch, records=[record("item-2", 0, "trace_z"), record("item-1", 0, "trace_a")])
    assert batch.rollouts.count() == 1


def test_record_keeps_what_a_database_cannot_hold_visible(batch_of):
    batch = batch_of(kind="train_step", source="ftjob-1", train_step=1, queue=False)
    odd = record(text="a\x00b\ud83d", reward=float("nan"))
    batch_record(batch=batch, records=[odd])
    row = batch.rollouts.get()
    assert row.answer == "a\ufffdb\ufffd"
    assert row.reward is None
    assert (row.status, row.stop_reason) == ("failed", "grader_failed")


def test_record_of_an_unknown_item_is_kept_without_one(batch_of):
    batch = batch_of(kind="train_step", source="ftjob-1", train_step=1, queue=False)
    batch_record(batch=batch, records=[record("elsewhere")])
    assert batch.rollouts.get().item is None
