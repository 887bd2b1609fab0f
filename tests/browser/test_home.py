"""The team home in a real browser: empty, and with work on every station."""

import pytest
from django.utils import timezone

from datasets.models import Dataset, DatasetVersion
from jobs.agents.models import Agent
from jobs.models import Job, TrainStep
from rftstudio.teams.services import audit
from tests.factories.studio import ready_baseline_of

AGENTS = ["VAT researcher", "Transfer pricing memo", "Customs classification"]


@pytest.fixture
def busy_team(owner):
    """Three agents: one trains, one is measured, one is blocked by its baseline."""
    baselines = []
    for number, name in enumerate(AGENTS):
        baseline = ready_baseline_of(owner)
        Agent.objects.filter(pk=baseline.agent_version.agent_id).update(name=name)
        baseline.agent_version.tools = [{"name": "lookup"}] * (number + 3)
        baseline.agent_version.save()
        DatasetVersion.objects.filter(pk=baseline.dataset_version_id).update(item_count=412)
        baselines.append(baseline)
    training, measured, blocked = baselines
    training.readiness = {"level": "warn", "warnings": 2}
    measured.status, measured.started_at = "running", timezone.now()
    measured.batch.rollouts.filter(sample_index=2).update(status="queued", reward=None)
    line = {"level": "block", "name": "Signal inside groups", "evidence": "81 % of items score 0 on all rollouts."}
    blocked.readiness = {"level": "block", "lines": [line]}
    for baseline in baselines:
        baseline.save()
    job = Job.objects.create(
        team=owner.team, number=12, baseline=training, base_model=training.model, status="running",
        done_steps=23, total_steps=40, started_at=timezone.now() - timezone.timedelta(hours=3), heartbeat_at=timezone.now(),
    )  # fmt: skip
    for n in range(1, 24):
        TrainStep.objects.create(job=job, number=n, mean_reward=0.46 + 0.2 * n / 23 + 0.02 * (n % 3))
    lines = Dataset.objects.create(team=owner.team, name="hs_codes_2026", slug="hs")
    DatasetVersion.objects.create(
        team=owner.team, dataset=lines, number=1, status="importing", progress={"rows": 20480, "rows_total": 25000}
    )
    draft = Dataset.objects.create(team=owner.team, name="vat_2026_q3", slug="vat")
    DatasetVersion.objects.create(team=owner.team, dataset=draft, number=8, status="draft", item_count=401)
    audit(owner, "job.launched", job, number=12)
    audit(owner, "evaluation.started", measured, number=measured.number)
    return owner


@pytest.mark.parametrize("width,theme", [("wide", "light"), ("wide", "dark"), ("middle", "light"), ("phone", "light")])
def test_home_with_work_is_accessible(signed_in_page, busy_team, axe, picture, width, theme):
    page = signed_in_page(busy_team, width=width, theme=theme)
    page.goto("/t/duty-desk/")
    page.get_by_text("Train step 23 of 40").wait_for()
    page.wait_for_load_state("networkidle")
    picture(page, f"home-busy-{width}-{theme}", whole=True)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", ["wide", "phone"])
def test_empty_home_offers_the_first_step(signed_in_page, owner, axe, picture, width):
    page = signed_in_page(owner, width=width)
    page.goto("/t/duty-desk/")
    page.get_by_text("Say what is good").wait_for()
    page.wait_for_load_state("networkidle")
    picture(page, f"home-empty-{width}", whole=True)
    assert axe(page) == []
