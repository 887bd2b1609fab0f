"""Re-grading runs: ordered, graded in slices, stopped at a budget, repaired, adopted."""

import itertools
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import connection
from django.utils import timezone

from jobs.agents.models import ModelEndpoint
from jobs.evaluations.services import evaluations_settle
from jobs.rollouts import regrade, tasks
from jobs.rollouts.models import RegradeResult, RegradeRun, Rollout
from jobs.rollouts.regrade import regrade_cancel, regrade_resume, regrade_run, regrade_start, regrades_sweep
from jobs.rollouts.regrade_adopting import regrade_adopt
from jobs.rollouts.regrade_selectors import regrade_changed, regrade_counts, regrade_spent
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, QuotaExceeded, UserError
from rftstudio.teams.models import AuditEvent
from rftstudio.usage.models import Price, Reservation, StopSwitch, Unit, UsageRecord
from tests.fakes.server import HttpServer, Reply
from tests.jobs.rollouts.conftest import LIKE, published

Status = RegradeRun.Status
JUDGED = {"type": "score_model", "model": "expert", "input": [{"role": "user", "content": "{{ sample.output_text }}"}]}


@pytest.fixture
def woken(monkeypatch) -> list:
    seen: list = []
    monkeypatch.setattr(tasks.regrade_run, "apply_async", lambda args, **options: seen.append(args[0]))
    return seen


@pytest.fixture
def judge(team, settings):
    """An endpoint that gives 1 and says it took 1,000 + 250 tokens; priced at $0.002 a mark."""
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    usage = {"prompt_tokens": 1000, "completion_tokens": 250, "total_tokens": 1250}
    answer = {"choices": [{"message": {"role": "assistant", "content": "1"}}], "usage": usage}
    with HttpServer(lambda request: Reply.of(answer)) as server:
        ModelEndpoint.objects.create(team=team, name="expert", kind="openai", model="m", base_url=server.url)
        yield server


@pytest.fixture
def prices(db):
    for unit, usd in ((Unit.INPUT_TOKEN, "0.000001"), (Unit.OUTPUT_TOKEN, "0.000004")):
        Price.objects.create(unit=unit, subject="expert", usd=Decimal(usd), valid_from=timezone.now())


def told(run) -> list:
    rows = run.results.order_by("rollout_id")
    return list(rows.values_list("rollout_id", "old_reward", "reward", "is_changed", "status"))


def test_run_keeps_new_rewards_beside_the_old_ones(member, evaluation, softer):
    before = list(Rollout.objects.order_by("id").values())
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    assert regrade_run(run_id=run.pk, seconds=30) == 18
    run.refresh_from_db()
    assert (run.status, run.graded_before) == ("succeeded", "Exact, version 1")
    counts = regrade_counts(run)
    assert (counts.total, counts.done, counts.changed, counts.up, counts.down) == (18, 18, 6, 6, 0)
    assert (counts.old_mean, counts.mean) == (pytest.approx(1.3 / 3), pytest.approx(2 / 3))
    assert [(row.old_reward, row.reward) for row in regrade_changed(run)] == [(0.3, 1.0)] * 6
    assert list(Rollout.objects.order_by("id").values()) == before
    assert AuditEvent.objects.filter(verb="regrade.started").count() == 1


def test_run_twice_same_result(member, evaluation, softer):
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    tasks.regrade_run(run.pk)
    first = told(run)
    tasks.regrade_run(run.pk)
    assert told(run) == first
    again = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    assert again.pk != run.pk
    tasks.regrade_run(again.pk)
    assert told(again) == first


def test_start_pressed_twice_is_one_run(member, evaluation, softer):
    runs = [regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch]) for _ in range(2)]
    assert runs[0] == runs[1]


def test_start_wakes_a_worker_once_it_is_stored(member, evaluation, softer, woken, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    assert woken == [run.pk]


def test_start_refuses_viewers_strangers_and_nothing(member, viewer, stranger, evaluation, softer):
    with pytest.raises(NotAllowed):
        regrade_start(actor=viewer, grader_version=softer, batches=[evaluation.batch])
    with pytest.raises(NotFound):
        regrade_start(actor=stranger, grader_version=softer, batches=[evaluation.batch])
    theirs = published(stranger, LIKE)
    with pytest.raises(NotFound):
        regrade_start(actor=stranger, grader_version=theirs, batches=[evaluation.batch])
    with pytest.raises(UserError, match="No rollouts"):
        regrade_start(actor=member, grader_version=softer, batches=[])
    Rollout.objects.update(item=None)
    with pytest.raises(UserError, match="item is not known"):
        regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    assert not RegradeRun.objects.exists()


def test_number_limits_the_newest(member, evaluation, softer):
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch], max_rollouts=4)
    newest = list(Rollout.objects.order_by("-id").values_list("pk", flat=True)[:4])
    assert set(run.results.values_list("rollout_id", flat=True)) == set(newest)
    with pytest.raises(UserError, match="0 rollouts"):
        regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch], max_rollouts=0)


def test_ungraded_is_not_zero_and_a_failed_grader_can_be_mended(member, evaluation, softer):
    sick, gone = evaluation.batch.rollouts.order_by("id")[:2]
    Rollout.objects.filter(pk=sick.pk).update(status="failed", stop_reason="grader_failed", reward=None, passed=None)
    Rollout.objects.filter(pk=gone.pk).update(status="failed", stop_reason="tool_failed", reward=None, passed=None)
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    assert not run.results.filter(rollout=gone).exists()
    regrade_run(run_id=run.pk, seconds=30)
    assert regrade_counts(run).newly_graded == 1
    broken = published(member, {**LIKE, "reference": "{{item.nothing}}"}, name="Broken")
    run = regrade_start(actor=member, grader_version=broken, batches=[evaluation.batch])
    regrade_run(run_id=run.pk, seconds=30)
    counts = regrade_counts(run)
    assert (counts.ungraded, counts.newly_ungraded, counts.mean) == (17, 16, None)
    run.refresh_from_db()
    with pytest.raises(Conflict, match="No rollout could be graded"):
        regrade_adopt(actor=member, run=run)


def test_slices_go_on_until_all_is_graded(
    member, evaluation, softer, woken, monkeypatch, django_capture_on_commit_callbacks
):
    """A clock that jumps four seconds at every look: each slice of ten seconds takes a few handfuls."""
    clock = itertools.count(0, 4)
    monkeypatch.setattr("jobs.rollouts.regrade_turn.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("jobs.rollouts.regrade_turn.AT_ONCE", 5)
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    slices = []
    while sum(slices) < 18:
        with django_capture_on_commit_callbacks(execute=True):
            slices.append(regrade_run(run_id=run.pk))
    assert all(slices)
    assert len(slices) > 1
    assert woken == [run.pk] * (len(slices) - 1)
    assert RegradeRun.objects.get(pk=run.pk).status == "succeeded"


def test_judges_are_paid_once_and_stop_at_the_cap(member, evaluation, judge, prices):
    judged = published(member, JUDGED)
    run = regrade_start(actor=member, grader_version=judged, batches=[evaluation.batch], cap_usd=Decimal("0.01"))
    regrade_run(run_id=run.pk, seconds=30)
    run.refresh_from_db()
    assert (run.status, regrade_counts(run).done) == ("paused", 5)
    assert "Stopped at $0.01" in run.note
    assert regrade_spent(run) == Decimal("0.01")
    assert len(judge.requests) == 5
    with pytest.raises(UserError, match="spent already"):
        regrade_resume(actor=member, run=run, cap_usd=Decimal("0.01"))
    regrade_resume(actor=member, run=run, cap_usd=Decimal("1.00"))
    regrade_run(run_id=run.pk, seconds=30)
    run.refresh_from_db()
    assert (run.status, len(judge.requests)) == ("succeeded", 18)
    spent = sum(UsageRecord.objects.filter(batch_source=run.public_id).values_list("usd", flat=True))
    assert spent == regrade_spent(run) == Decimal("0.036")


def test_money_is_held_and_what_was_not_spent_given_back(member, evaluation, judge, prices):
    run = regrade_start(
        actor=member, grader_version=published(member, JUDGED), batches=[evaluation.batch], cap_usd=Decimal("1.00")
    )
    held = Reservation.objects.get(source=run.public_id)
    assert (held.status, held.held_usd) == ("held", Decimal("1.00"))
    regrade_run(run_id=run.pk, seconds=30)
    held.refresh_from_db()
    assert (held.status, held.spent_usd) == ("settled", Decimal("0.036"))


def test_limit_that_is_just_enough_ends_the_run(member, evaluation, judge, prices):
    Rollout.objects.filter(pk__in=list(Rollout.objects.order_by("pk").values_list("pk", flat=True)[5:])).delete()
    judged = published(member, JUDGED)
    run = regrade_start(actor=member, grader_version=judged, batches=[evaluation.batch], cap_usd=Decimal("0.01"))
    regrade_run(run_id=run.pk, seconds=30)
    run.refresh_from_db()
    assert (run.status, regrade_spent(run)) == ("succeeded", Decimal("0.01"))


def test_stop_switch_pauses_a_run_that_pays_and_bars_a_new_one(member, evaluation, softer, judge, prices):
    judged = published(member, JUDGED, name="Judged")
    run = regrade_start(actor=member, grader_version=judged, batches=[evaluation.batch])
    StopSwitch.objects.create(team=member.team, is_on=True, reason="audit")
    regrade_run(run_id=run.pk, seconds=30)
    run.refresh_from_db()
    assert (run.status, len(judge.requests)) == ("paused", 0)
    assert "Spending is stopped" in run.note
    with pytest.raises(QuotaExceeded):
        regrade_resume(actor=member, run=run, cap_usd=None)
    free = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    assert regrade_run(run_id=free.pk, seconds=30) == 18  # it pays nobody


def test_cap_without_a_price_is_refused(member, evaluation, judge):
    judged = published(member, JUDGED)
    with pytest.raises(UserError, match="no price for expert"):
        regrade_start(actor=member, grader_version=judged, batches=[evaluation.batch], cap_usd=Decimal("1"))
    run = regrade_start(actor=member, grader_version=judged, batches=[evaluation.batch], max_rollouts=2)
    regrade_run(run_id=run.pk, seconds=30)
    assert regrade_counts(run).spent is None  # counted, not priced
    assert UsageRecord.objects.filter(batch_source=run.public_id, usd=None).count() == 4


def test_sweep_frees_what_a_dead_worker_held_and_wakes_another(member, evaluation, softer, woken):
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    held = regrade.results_claim(run, 3)
    RegradeRun.objects.update(status="running")
    assert regrades_sweep() == 0
    assert woken == []
    RegradeResult.objects.filter(pk=held[0].pk).update(attempt=3)
    RegradeResult.objects.filter(status="running").update(lease_until=timezone.now() - timedelta(seconds=1))
    assert regrades_sweep() == 2
    assert woken == [run.pk]
    regrade_run(run_id=run.pk, seconds=30)
    run.refresh_from_db()
    assert (run.status, regrade_counts(run).done, regrade_counts(run).ungraded) == ("succeeded", 18, 1)
    assert "lost 3 times" in RegradeResult.objects.get(pk=held[0].pk).grade["details"]


def test_late_result_of_a_lost_worker_is_left_alone(member, evaluation, softer):
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    (late,) = regrade.results_claim(run, 1)
    RegradeResult.objects.filter(pk=late.pk).update(status="queued")
    regrade_run(run_id=run.pk, seconds=30)
    assert regrade.result_store(late, grade={"reward": 0.123}, cost_usd=None) is False
    assert not run.results.filter(reward=0.123).exists()


def test_cancelled_run_keeps_what_was_graded(member, viewer, evaluation, softer):
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    with pytest.raises(NotAllowed):
        regrade_cancel(actor=viewer, run=run)
    regrade_cancel(actor=member, run=run)
    assert regrade_run(run_id=run.pk) == 0
    with pytest.raises(Conflict):
        regrade_cancel(actor=member, run=run)
    with pytest.raises(Conflict, match="no evaluation here"):
        regrade_adopt(actor=member, run=run)


def test_adopt_puts_the_new_rewards_in_place_with_audit(member, viewer, evaluation, softer):
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    regrade_run(run_id=run.pk, seconds=30)
    run.refresh_from_db()
    with pytest.raises(NotAllowed):
        regrade_adopt(actor=viewer, run=run)
    assert regrade_adopt(actor=member, run=run) == 6
    assert regrade_adopt(actor=member, run=run) == 0
    assert Rollout.objects.filter(reward=1.0, passed=True, status="done").count() == 12
    kept = run.results.filter(is_changed=True).first().replaced
    assert (kept["reward"], kept["passed"], kept["step_rewards"]) == (0.3, False, [None])
    line = AuditEvent.objects.get(verb="regrade.adopted")
    assert (line.data["source"], line.data["changed"]) == (evaluation.public_id, 6)
    evaluations_settle()
    evaluation.refresh_from_db()
    assert evaluation.grader_version == softer
    assert (evaluation.pass_threshold, evaluation.status) == (0.75, "succeeded")
    assert evaluation.metrics["mean_reward"] == pytest.approx(2 / 3)
    settled = evaluation.metrics
    evaluations_settle()
    evaluation.refresh_from_db()
    assert evaluation.metrics == settled


def test_rewards_of_training_are_never_adopted(member, evaluation, softer):
    evaluation.batch.kind = "train_step"
    evaluation.batch.save()
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    regrade_run(run_id=run.pk, seconds=30)
    before = list(Rollout.objects.order_by("id").values())
    run.refresh_from_db()
    with pytest.raises(Conflict, match="no evaluation here"):
        regrade_adopt(actor=member, run=run)
    assert list(Rollout.objects.order_by("id").values()) == before


def test_half_an_evaluation_is_not_adopted(member, evaluation, softer):
    run = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch], max_rollouts=17)
    regrade_run(run_id=run.pk, seconds=30)
    run.refresh_from_db()
    with pytest.raises(Conflict, match="no evaluation here"):
        regrade_adopt(actor=member, run=run)


def test_mended_rollout_is_done_and_an_ungraded_one_fails_in_the_grader(member, evaluation):
    sick, bare = evaluation.batch.rollouts.order_by("id")[:2]
    Rollout.objects.filter(pk=sick.pk).update(
        status="failed", stop_reason="grader_failed", reward=None, passed=None, error="The judge was silent."
    )
    Rollout.objects.filter(pk=bare.pk).update(answer="")
    source = "def grade(sample, item):\n    return 1 / bool(sample['output_text'])"
    run = regrade_start(
        actor=member, grader_version=published(member, {"type": "python", "source": source}), batches=[evaluation.batch]
    )
    regrade_run(run_id=run.pk, seconds=60)
    run.refresh_from_db()
    regrade_adopt(actor=member, run=run)
    sick.refresh_from_db()
    bare.refresh_from_db()
    assert (sick.status, sick.stop_reason, sick.error, sick.reward) == ("done", "answered", "", 1.0)
    assert (bare.status, bare.stop_reason, bare.reward) == ("failed", "grader_failed", None)
    assert "division by zero" in bare.error


WORKER = """
import os, sys, django
os.environ["DJANGO_SETTINGS_MODULE"] = "rftstudio.settings.test"
django.setup()
from django.db import connections
from django.conf import settings
settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
from jobs.rollouts import regrade, tasks
regrade.queue = lambda *args, **options: None
print("ready", flush=True)
regrade.regrade_run(run_id=int(sys.argv[1]), seconds=60)
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="names the file of the test database")
def test_killed_worker_loses_and_doubles_nothing(member, evaluation, judge, prices, woken):
    """The worker is a process of its own, ended by SIGKILL in the middle of its calls."""
    slow = Reply.of(
        {"choices": [{"message": {"role": "assistant", "content": "0.5"}}], "usage": {"prompt_tokens": 10}}, seconds=0.3
    )
    judge.handler = lambda request: slow
    run = regrade_start(actor=member, grader_version=published(member, JUDGED), batches=[evaluation.batch])
    name = connection.settings_dict["NAME"]
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{name}"}
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(run.pk)], env=environment, stdout=subprocess.PIPE,
                              cwd=Path(__file__).parents[3])  # fmt: skip
    results = RegradeResult.objects.filter(run=run)

    def is_held_in_the_middle() -> bool:
        """Stopped first and looked at then, or it could be between two slices when the signal comes."""
        os.kill(worker.pid, signal.SIGSTOP)
        if results.filter(status="done").count() >= 3 and results.filter(status="running").exists():
            return True
        os.kill(worker.pid, signal.SIGCONT)
        return False

    try:
        wait_for(is_held_in_the_middle)
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    kept = told(run)
    assert any(row[4] == "running" for row in kept)
    RegradeResult.objects.filter(status="running").update(lease_until=timezone.now() - timedelta(seconds=1))
    regrades_sweep()
    regrade_run(run_id=run.pk, seconds=60)
    after = told(run)
    assert [row[2] for row in after] == [0.5] * 18
    assert [row for row in kept if row[4] == "done"] == [
        row for row, old in zip(after, kept, strict=True) if old[4] == "done"
    ]
    run.refresh_from_db()
    assert run.status == "succeeded"


def wait_for(is_so, seconds: float = 60.0) -> None:
    ends_at = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends_at, "it did not happen"
        time.sleep(0.05)
