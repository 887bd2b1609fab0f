"""Evaluation, launch and job pages in a real browser: drawn, accessible, kept by the content policy."""

from decimal import Decimal

import pytest
from django.utils import timezone

from jobs.events import event_note
from jobs.models import Checkpoint, Job, LaunchDraft, TrainStep
from jobs.services import job_launch
from rftstudio.usage.services import quota_set
from tests.factories.studio import ready_baseline_of
from tests.factories.usage import PriceFactory

LOOKS = [("wide", "light"), ("wide", "dark"), ("phone", "light")]


@pytest.fixture
def baseline(owner):
    return ready_baseline_of(owner, rewards=(1.0, 0.3, 0.0, 0.7, None, 0.0, 1.0), samples=4, n_train=120, n_test=12)


@pytest.fixture
def job(owner, baseline):
    made = job_launch(
        actor=owner, baseline=baseline, plan={"max_steps": 20, "stop_zero_variance": 0.6}, name="first try"
    )
    for n in range(1, 13):
        own = {"groups": 8, "groups_low": 2, "groups_high": n // 4, "tools": {"lookup": 2 - n / 20, "calc": 0.6},
               "tokens_mean": 30.0, "sub_rewards": {"exact": 0.3 + n / 30, "brevity": 0.9}, "ungraded_share": 0.0}  # fmt: skip
        TrainStep.objects.create(
            job=made, number=n, mean_reward=0.4 + n / 30, validation_reward=0.4 + n / 30 if n % 4 == 0 else None,
            metrics={"studio": own, "seconds": 2.0, "entropy": 1.1, "grad_norm": 0.4}, at=timezone.now(),
        )  # fmt: skip
    best = Checkpoint.objects.create(team=owner.team, job=made, step_number=12, path="/x", validation_reward=0.8)
    event_note(made, "The trainer died at train step 3. It starts again from its newest checkpoint.", level="warn")
    Job.objects.filter(pk=made.pk).update(
        status="running", done_steps=12, total_steps=20, heartbeat_at=timezone.now(), best_checkpoint=best,
        started_at=timezone.now(), queued_at=timezone.now(),
    )  # fmt: skip
    return made


def drawn(page) -> None:
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("width,theme", LOOKS)
def test_evaluation_page_is_drawn_and_accessible(signed_in_page, owner, baseline, axe, picture, width, theme):
    page = signed_in_page(owner, width=width, theme=theme)
    page.goto(f"/t/duty-desk/evaluations/{baseline.public_id}/")
    drawn(page)
    picture(page, f"evaluation-{width}-{theme}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width,theme", LOOKS)
def test_job_page_is_drawn_and_accessible(signed_in_page, owner, job, axe, picture, width, theme):
    page = signed_in_page(owner, width=width, theme=theme)
    page.goto(f"/t/duty-desk/jobs/{job.public_id}/")
    drawn(page)
    picture(page, f"job-{width}-{theme}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    click = "(box) => box.emit('plotly_click', {points: [{data: box.data[0], x: box.data[0].x[4]}]})"
    page.locator("#reward-curve").evaluate(click)
    page.wait_for_url(f"**/rollouts/?source={job.public_id}&kind=train_step&train_step=5")


@pytest.mark.parametrize("width,theme", LOOKS[1:])
def test_launch_page_starts_from_a_job_is_put_aside_and_launches(
    signed_in_page, owner, baseline, axe, picture, complaints, width, theme
):
    PriceFactory(usd=Decimal("0.004"))
    quota_set(actor=owner, usd_month=Decimal(12))
    first = job_launch(actor=owner, baseline=baseline, plan={"n_epochs": 2}, name="first try")
    Job.objects.update(status="succeeded", result={"seconds": 90, "rollouts": 1920})
    page = signed_in_page(owner, width=width, theme=theme)
    page.goto(f"/t/duty-desk/jobs/new/?baseline={baseline.public_id}")
    page.get_by_text("120 ÷ 8 × 1 = 15").wait_for()
    picture(page, f"launch-{width}-{theme}", whole=True)
    page.get_by_text("Start from an earlier job").click()
    picture(page, f"launch-menu-{width}-{theme}")
    page.get_by_role("link", name="first try").click()
    page.get_by_text(f"Filled in from job {first.number}").wait_for()
    page.get_by_text("120 ÷ 8 × 2 = 30").wait_for()
    page.get_by_label("Epochs").fill("3")
    page.get_by_text("120 ÷ 8 × 3 = 45").wait_for()
    page.wait_for_load_state("networkidle")
    picture(page, f"launch-clone-{width}-{theme}", whole=True)
    assert axe(page) == []
    page.get_by_label("Items per train step").fill("many")
    page.get_by_role("button", name="Save as draft").click()
    page.get_by_text("One field has to change").wait_for()
    picture(page, f"launch-draft-{width}-{theme}", whole=True)
    assert axe(page) == []
    page.goto("/t/duty-desk/jobs/")
    picture(page, f"jobs-{width}-{theme}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("region", name="Drafts").get_by_role("link", name="first try, again").click()
    page.get_by_label("Items per train step").fill("8")
    page.get_by_text("120 ÷ 8 × 3 = 45").wait_for()
    page.get_by_role("button", name="Launch").click()  # without the tick
    page.get_by_text("Read the warnings and tick this").wait_for()
    assert all("422" in words for words in complaints)  # the browser notes that answer itself
    complaints.clear()
    picture(page, f"launch-422-{width}-{theme}", whole=True)
    assert axe(page) == []
    page.get_by_label("I have read the warnings").check()
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Launch and hold $").click()
    page.get_by_text("Checking files and grader").wait_for()
    assert Job.objects.latest("id").plan["n_epochs"] == 3
    assert not LaunchDraft.objects.exists()


def test_lists_comparisons_and_forms_are_accessible(signed_in_page, owner, job, baseline, axe, picture):
    second = ready_baseline_of(owner, rewards=(1.0, 0.7, 0.3), samples=4, n_test=12)
    page = signed_in_page(owner)
    for name, path in {
        "evaluations": "evaluations/",
        "evaluation-new": "evaluations/new/",
        "evaluation-compare": f"evaluations/compare/?a={baseline.public_id}&b={second.public_id}",
        "jobs": "jobs/",
        "job-events": f"jobs/{job.public_id}/events/",
        "job-compare": f"jobs/compare/?job={job.public_id}",
    }.items():
        page.goto(f"/t/duty-desk/{path}")
        page.wait_for_load_state("networkidle")
        picture(page, name, whole=True)
        assert axe(page) == [], name
