"""Pages of re-grading."""

import pytest
from django.urls import reverse

from jobs.rollouts.models import RegradeRun
from jobs.rollouts.regrade import regrade_run, regrade_start
from tests.jobs.rollouts.conftest import LIKE, published


def url(name, team, public_id):
    return reverse(f"rollouts:regrade-{name}", args=[team.slug, public_id])


@pytest.fixture
def run(member, evaluation, softer):
    made = regrade_start(actor=member, grader_version=softer, batches=[evaluation.batch])
    regrade_run(run_id=made.pk, seconds=30)
    made.refresh_from_db()
    return made


def test_order_form_starts_a_run(member, client_of, evaluation, softer):
    client = client_of(member)
    address = url("new", member.team, softer.public_id)
    page = client.get(f"{address}?source={evaluation.public_id}").content.decode()
    assert "Exact, version 1" in page
    assert "checked" in page
    assert "Judges may cost" not in page  # it calls nobody
    key = f"evaluation:{evaluation.public_id}"
    answer = client.post(address, {"sources": [key], "max_rollouts": "5"})
    run = RegradeRun.objects.get()
    assert answer.url == url("detail", member.team, run.public_id)
    assert run.results.count() == 5


@pytest.mark.parametrize("data", [{}, {"sources": ["evaluation:other"]}, {"max_rollouts": "0"}])
def test_order_form_says_what_is_wrong(member, client_of, evaluation, softer, data):
    answer = client_of(member).post(url("new", member.team, softer.public_id), data)
    assert answer.status_code == 422
    assert "field-error" in answer.content.decode()
    assert not RegradeRun.objects.exists()


def test_run_shows_what_changed_with_links(member, client_of, run):
    page = client_of(member).get(url("detail", member.team, run.public_id)).content.decode()
    assert "18</b> of 18" in page
    assert 'hx-trigger="every 2s"' not in page
    row = run.results.filter(is_changed=True).first()
    assert reverse("rollouts:rollout-detail", args=[member.team.slug, row.rollout.public_id]) in page
    assert "+0.70" in page
    assert "Adopt for the evaluation" in page
    assert "Rewards before and now" in page


def test_run_at_work_is_polled(member, client_of, run):
    RegradeRun.objects.update(status="running")
    client = client_of(member)
    page = client.get(url("detail", member.team, run.public_id), headers={"HX-Request": "true"}).content.decode()
    assert 'hx-trigger="every 2s"' in page
    assert "<html" not in page


def test_panel_lists_the_runs_of_a_grader(member, viewer, client_of, run):
    address = url("panel", member.team, run.grader_version.grader.public_id)
    page = client_of(member).get(address).content.decode()
    assert "18 of 18" in page
    assert "Re-grade stored rollouts" in page
    assert "Re-grade stored rollouts" not in client_of(viewer).get(address).content.decode()
    versions = reverse("graders:grader-versions", args=[member.team.slug, run.grader_version.grader.public_id])
    assert address in client_of(member).get(versions).content.decode()


def test_panel_asks_as_often_for_ten_runs_as_for_one(member, client_of, run, evaluation):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = client_of(member)
    address = url("panel", member.team, run.grader_version.grader.public_id)
    with CaptureQueriesContext(connection) as one:
        client.get(address)
    for _ in range(5):
        made = regrade_start(actor=member, grader_version=run.grader_version, batches=[evaluation.batch])
        RegradeRun.objects.filter(pk=made.pk).update(status="cancelled")
    with CaptureQueriesContext(connection) as six:
        client.get(address)
    assert len(six) == len(one)


def test_adopt_resume_and_cancel_by_button(member, client_of, run):
    client = client_of(member)
    client.post(url("adopt", member.team, run.public_id))
    run.refresh_from_db()
    assert run.adopted_at is not None
    RegradeRun.objects.update(status="paused")
    client.post(url("resume", member.team, run.public_id), {"cap_usd": "many"})
    run.refresh_from_db()
    assert run.status == "paused"
    client.post(url("resume", member.team, run.public_id), {"cap_usd": "2.50"})
    run.refresh_from_db()
    assert (run.status, str(run.cap_usd)) == ("running", "2.50")
    client.post(url("cancel", member.team, run.public_id))
    run.refresh_from_db()
    assert run.status == "cancelled"


@pytest.mark.parametrize("name", ["detail", "cancel", "resume", "adopt"])
def test_strangers_see_nothing_and_viewers_change_nothing(stranger, viewer, client_of, run, name):
    address = url(name, run.team, run.public_id)
    ask = client_of(stranger).get if name == "detail" else client_of(stranger).post
    assert ask(address).status_code == 404
    if name != "detail":
        assert client_of(viewer).post(address).status_code == 403
        run.refresh_from_db()
        assert (run.status, run.adopted_at) == ("succeeded", None)


def test_order_form_of_a_stranger_and_of_a_viewer(stranger, viewer, client_of, softer):
    assert client_of(stranger).get(url("new", softer.team, softer.public_id)).status_code == 404
    assert client_of(viewer).get(url("new", softer.team, softer.public_id)).status_code == 403
    theirs = published(stranger, LIKE)
    assert client_of(stranger).get(url("new", stranger.team, softer.public_id)).status_code == 404
    assert client_of(stranger).get(url("new", stranger.team, theirs.public_id)).status_code == 200
