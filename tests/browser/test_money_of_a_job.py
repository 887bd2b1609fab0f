"""The way of one job's money through the browser: asked for, approved, paused at the sum, extended, each cent explained."""

from decimal import Decimal

import pytest
from django.urls import reverse

from jobs.models import Job
from rftstudio.usage.models import Approval, LedgerLine
from rftstudio.usage.services import quota_set
from tests.factories.studio import ready_baseline_of
from tests.factories.usage import PriceFactory
from tests.jobs.conftest import look_until
from tests.jobs.conftest import trainer as scripted  # noqa: F401  a fixture

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
STEP, CAP = Decimal("0.073"), Decimal("0.50")


@pytest.fixture
def baseline(member):
    return ready_baseline_of(member)


@pytest.fixture
def plan(owner):
    PriceFactory(usd=STEP * 2)
    quota_set(actor=owner, usd_month=Decimal(100), approval_above_usd=Decimal("0.01"))


def test_engineer_asks_owner_approves_and_extends(signed_in_page, picture, plan, owner, baseline, member, scripted):  # noqa: F811
    team = owner.team.slug
    scripted(step_seconds=0.5)
    page = signed_in_page(member)
    page.goto(f"{reverse('jobs:job-new', args=[team])}?baseline={baseline.public_id}")
    page.locator("[name=n_epochs]").fill("4")
    page.locator("[name=batch_size]").fill("4")
    page.wait_for_load_state("networkidle")
    page.locator("[name=read_warnings]").check()
    page.get_by_role("button", name="Ask for approval of $").click()
    page.get_by_text("Waiting for approval").first.wait_for()
    picture(page, "job-waits-for-approval")
    job = Job.objects.get()
    Approval.objects.update(amount_usd=CAP)

    owners = signed_in_page(owner)
    owners.goto(reverse("usage:cost-list", args=[team]))
    owners.get_by_role("button", name="Approve $0.50").click()
    owners.get_by_text("Job 1: $0.50 approved.").wait_for()

    job = look_until(job, status="paused", seconds=60)
    owners.goto(reverse("jobs:job-detail", args=[team, job.public_id]))
    owners.get_by_text("held for it are used up").first.wait_for()
    picture(owners, "job-paused-at-its-sum")
    assert job.done_steps < job.total_steps
    owners.get_by_role("button", name="Resume").click()
    owners.get_by_text("Resumed").first.wait_for()
    job = look_until(job, seconds=120)
    assert job.status == "succeeded"

    owners.goto(f"{reverse('usage:ledger-list', args=[team])}?for={job.public_id}")
    words = owners.locator("main").inner_text()
    picture(owners, "ledger-of-a-job")
    for text in ("Job 1 launched", "Job 1, train step 1", "Job 1, not spent", "held"):
        assert text in words
    spent = LedgerLine.objects.filter(batch_source=job.public_id, kind="spent")
    assert sum(line.usd for line in spent) == STEP * job.total_steps
