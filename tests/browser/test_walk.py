"""One walk through the house in a real browser: from the log-in to the step that decided a rollout's reward."""

import pytest
from django.utils import timezone

from jobs.models import Job, TrainStep
from jobs.services import job_launch
from tests.factories.rollouts import RolloutBatchFactory, customs_group
from tests.factories.studio import ready_baseline_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(owner):
    """A job with one train step whose eight rollouts are stored with their steps."""
    baseline = ready_baseline_of(owner, rewards=(1.0, 0.3, 0.0, 0.7), samples=4, n_train=120, n_test=12)
    made = job_launch(actor=owner, baseline=baseline, plan={"max_steps": 20}, name="Customs, first try")
    batch = RolloutBatchFactory(team=owner.team, source=made.public_id, kind="train_step", train_step=1)
    customs_group(batch)
    TrainStep.objects.create(job=made, number=1, batch=batch, mean_reward=0.5, at=timezone.now())
    Job.objects.filter(pk=made.pk).update(status="succeeded", done_steps=1, finished_at=timezone.now())
    return made


def test_walk_from_the_log_in_to_the_deciding_step(open_page, owner, job, axe, picture):
    page = open_page()
    page.goto("/log-in/")
    page.get_by_label("E-mail address").fill(owner.user.email)
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/t/duty-desk/")
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.get_by_role("link", name="Customs, first try").first.click()
    page.get_by_role("link", name="Its rollouts").click()
    page.wait_for_url(f"**/rollouts/?source={job.public_id}*")
    page.locator("tr.inner a, tr.group a").first.wait_for()
    page.goto(page.url + "&by=rollout")
    page.locator("table[data-rows] a").first.click()
    page.locator(".walk-verdict").wait_for()
    # The credit chart: one row a step, each named in words with its credit and how sure that is.
    rows = page.locator(".walk-row")
    assert rows.count() >= 2
    assert page.locator(".walk-row svg").count() >= 2
    assert axe(page) == []
    picture(page, "walk-rollout")
