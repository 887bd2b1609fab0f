"""Money around a job: held at launch, stopped when it is used up, given back at rest, approved by an owner."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs import services, supervision
from jobs.costs import job_cost, judges_charge
from jobs.holds import rest_cost
from jobs.models import Job
from jobs.pages import state_context
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.engine.types import Trajectory
from jobs.services import job_cancel, job_launch, job_pause, job_resume
from rftstudio.core.errors import QuotaExceeded
from rftstudio.usage import selectors
from rftstudio.usage.models import Approval, LedgerLine, Reservation
from rftstudio.usage.services import approval_approve, approval_decline, quota_set, stop_set
from tests.factories.teams import UserFactory
from tests.factories.usage import PriceFactory
from tests.jobs.conftest import SMALL, look_until

LONG = SMALL | {"max_steps": 12, "eval_interval": 12}
STEP = Decimal("0.073")


@pytest.fixture
def price(db):
    """Each train step of the scripted trainer takes half a second, and so costs $0.073."""
    return PriceFactory(usd=STEP * 2)


def held(job: Job) -> Reservation:
    return Reservation.objects.get(source=job.public_id)


def launch(actor, baseline, **plan) -> Job:
    return job_launch(actor=actor, baseline=baseline, plan=LONG | plan)


def explained(job: Job) -> None:
    """Spent lines are what the job cost; what was held is spent or returned, but for what went over."""
    lines = LedgerLine.objects.filter(batch_source=job.public_id)
    sums = {kind: sum((line.usd for line in lines.filter(kind=kind)), Decimal(0)) for kind in LedgerLine.Kind.values}
    assert sums["spent"] == (job_cost(job) or 0) == held(job).spent_usd
    over = max(Decimal(0), sums["spent"] + sums["returned"] - sums["held"])
    assert sums["held"] + over == sums["spent"] + sums["returned"]
    assert over <= STEP


def test_job_launch_holds_the_high_end_of_the_estimate(price, member, ready_baseline):
    job = launch(member, ready_baseline)
    row = held(job)
    shown = job.events.get(data__has_key="estimate").data["estimate"]
    assert row.left_usd == pytest.approx(Decimal(str(shown["usd_high"])), abs=Decimal("0.01"))
    assert (row.user, row.label, row.rollouts) == (member.user, "Job 1", 72 + 4)


def test_job_launch_without_a_price_holds_nothing_and_counts(member, ready_baseline):
    assert held(launch(member, ready_baseline)).held_usd is None


def test_job_launch_beyond_quota_is_refused(price, owner, member, ready_baseline):
    quota_set(actor=owner, usd_month=Decimal("1.00"))
    with pytest.raises(QuotaExceeded, match="left this month"):
        launch(member, ready_baseline)
    assert not Job.objects.exists()
    assert not LedgerLine.objects.exists()


def test_job_launch_while_spending_is_stopped_is_refused(price, member, ready_baseline):
    stop_set(user=UserFactory(is_superuser=True), team=None, is_on=True, reason="audit")
    with pytest.raises(QuotaExceeded, match="audit"):
        launch(member, ready_baseline)


def test_job_cancelled_before_it_starts_gives_all_back(price, member, ready_baseline):
    job = launch(member, ready_baseline)
    job_cancel(actor=member, job=job)
    explained(job)
    assert selectors.budget_get(team=member.team).held == 0


def test_judges_of_training_are_charged_once(member, ready_baseline):
    PriceFactory(unit="output_token", subject="judge-1", usd="0.001")
    job = launch(member, ready_baseline)
    record = RolloutRecord(
        "a",
        0,
        "trace_1",
        Trajectory(steps=[], stop_reason="answered"),
        {"usage": {"judge-1": {"completion_tokens": 30}}},
    )
    for _ in range(2):
        judges_charge(job, step=3, records=[record], at=job.created_at)
    line = LedgerLine.objects.get(category="judge")
    assert (line.usd, line.note) == (Decimal("0.03"), "Job 1, judge judge-1, train step 3")


def test_hold_whose_release_was_lost_is_found_by_the_next_look(price, member, ready_baseline):
    job = launch(member, ready_baseline)
    Job.objects.filter(pk=job.pk).update(status="failed")
    supervision.jobs_sync()
    assert held(job).status == "settled"
    explained(job)


# -- owners -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(price, owner, member, ready_baseline) -> Job:
    quota_set(actor=owner, usd_month=Decimal(100), approval_above_usd=Decimal("0.01"))
    return launch(member, ready_baseline)


def test_job_above_the_limit_waits_for_an_owner(asked, trainer):
    supervision.jobs_sync()
    asked.refresh_from_db()
    assert (asked.status, asked.status_note[:24]) == ("validating_files", "Waits for an owner to ap")
    assert not Reservation.objects.exists()
    assert Approval.objects.get().words.startswith("Clerk · trl · 12 train steps, 72 rollouts")


def test_job_of_a_declined_request_ends_with_the_reason(asked, owner):
    approval_decline(actor=owner, approval=Approval.objects.get(), reason="not this month")
    for _ in range(2):
        supervision.jobs_sync()
    asked.refresh_from_db()
    assert asked.status == "cancelled"
    assert "not this month" in asked.status_note
    assert asked.events.filter(message__contains="not this month").count() == 1


def test_job_cancelled_while_it_waits_withdraws_its_request(asked, member):
    job_cancel(actor=member, job=asked)
    assert Approval.objects.get().status == "withdrawn"


def test_job_launched_by_an_owner_waits_for_nobody(asked, owner, ready_baseline):
    assert held(launch(owner, ready_baseline)).status == "held"


def test_launch_page_says_what_is_held_asked_or_refused(price, owner, member, ready_baseline, client_of):
    url = reverse("jobs:job-new", args=[member.team.slug])

    def page(actor, **limits) -> str:
        quota_set(actor=owner, **limits)
        return client_of(actor).get(url).content.decode()

    assert "Launch and hold $" in page(member)
    assert "Ask for approval of $" in page(member, approval_above_usd=Decimal("0.01"))
    assert "Launch and hold $" in page(owner)
    refused = page(member, usd_month=Decimal("0.50"))
    assert "Duty desk has $0.50 left this month" in refused
    assert "disabled>Launch the job" in refused


def test_job_page_says_that_it_waits_for_approval(asked, member, client_of):
    page = client_of(member).get(reverse("jobs:job-detail", args=[asked.team.slug, asked.public_id])).content.decode()
    assert "Waiting for approval" in page
    assert "Waits for an owner to approve" in page
    with CaptureQueriesContext(connection) as queries:
        state_context(asked, member)
    assert sum('FROM "usage_approval"' in query["sql"] for query in queries.captured_queries) == 1


# -- with a trainer ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_engineer_asks_owner_approves_job_pauses_at_the_sum_owner_extends(asked, owner, member, trainer):
    """The whole way of one job's money, each cent of it in the ledger."""
    trainer(step_seconds=0.5, hold_at=[7])  # six steps fit under the cap beside the one at work
    cap = Decimal(json.loads((Path(__file__).parents[1] / "data/cases/inputs/c065_cap.json").read_text())["cap"])
    approval = Approval.objects.get()
    Approval.objects.update(amount_usd=cap)
    approval_approve(actor=owner, approval=approval)
    job = look_until(asked, status="paused", seconds=60)
    assert "held for it are used up" in job.status_note
    row = held(job)
    assert cap - STEP < row.spent_usd < cap + STEP, "pauses at the first step past the cap, over by one step at most"
    assert row.status == "settled"
    explained(job)

    job_resume(actor=member, job=job)
    job.refresh_from_db()
    assert (job.status, held(job).status) == ("paused", "settled")
    assert Approval.objects.filter(status="waiting").get().amount_usd >= rest_cost(job) - Decimal("0.01")
    approval_decline(actor=owner, approval=Approval.objects.get(status="waiting"), reason="wait")
    supervision.jobs_sync()
    job.refresh_from_db()
    assert "wait" in job.status_note

    job_resume(actor=owner, job=job)
    assert held(job).left_usd > 0
    job = look_until(job, seconds=60)
    assert (job.status, job.done_steps) == ("succeeded", 12)
    explained(job)
    assert job_cost(job) == 12 * STEP
    budget = selectors.budget_get(team=owner.team)
    assert (budget.spent, budget.held) == (12 * STEP, 0)


@pytest.mark.django_db(transaction=True)
def test_job_cancelled_at_a_step_costs_the_steps_done_and_gives_back_the_rest(price, member, ready_baseline, trainer):
    trainer(step_seconds=0.5, hold_at=[4])
    job = look_until(launch(member, ready_baseline), until=lambda one: one.done_steps >= 3, seconds=60)
    job_cancel(actor=member, job=job)
    job = look_until(job, seconds=60)
    assert job.status == "cancelled"
    assert job_cost(job) == job.done_steps * STEP
    explained(job)
    assert selectors.budget_get(team=member.team).held == 0


@pytest.mark.django_db(transaction=True)
def test_stop_switch_pauses_running_jobs_and_starts_none(price, member, ready_baseline, trainer):
    trainer(hold_at=[2])
    admin = UserFactory(is_superuser=True)
    job = look_until(launch(member, ready_baseline), until=lambda one: one.done_steps >= 1, seconds=60)
    second = launch(member, ready_baseline)
    stop_set(user=admin, team=member.team, is_on=True, reason="the budget")
    job = look_until(job, status="paused", seconds=60)
    assert "Spending is stopped for Duty desk: the budget." in job.status_note
    look_until(second, until=lambda one: "Spending is stopped" in one.status_note, seconds=30)
    assert second.status == "queued"
    with pytest.raises(QuotaExceeded, match="stopped"):
        job_resume(actor=member, job=job)
    stop_set(user=admin, team=member.team, is_on=False)
    look_until(second, until=lambda one: one.status == "running", seconds=30)
    job_cancel(actor=member, job=second)
    look_until(second, seconds=60)


@pytest.mark.django_db(transaction=True)
def test_paused_job_holds_nothing_and_resume_holds_the_rest(price, member, ready_baseline, trainer):
    trainer(hold_at=[3, 6])
    job = look_until(launch(member, ready_baseline), until=lambda one: one.done_steps >= 2, seconds=60)
    job_pause(actor=member, job=job)
    job = look_until(job, status="paused", seconds=60)
    assert held(job).left_usd == 0
    services.job_resume(actor=member, job=job)
    rest = job_cost(job) / job.done_steps * (12 - job.done_steps) * Decimal("1.25")
    assert held(job).left_usd == pytest.approx(rest, abs=Decimal("0.01"))
    job_cancel(actor=member, job=look_until(job, until=lambda one: one.status == "running"))
    look_until(job, seconds=60)
