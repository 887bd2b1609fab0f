"""The home's fragments: path, needs, running, lately, jump."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs import home_jump, home_needs, home_running, home_selectors
from jobs.models import Job, TrainStep
from rftstudio.teams.services import audit
from tests.factories.studio import AgentVersionFactory, FrozenVersionFactory, ready_baseline_of

FRAGMENTS = ["home-path", "home-needs", "home-running", "home-story", "jump"]


def job_of(actor, baseline, **fields) -> Job:
    fields = {"status": "running", "done_steps": 23, "total_steps": 40, "number": baseline.number, **fields}
    return Job.objects.create(team=actor.team, baseline=baseline, base_model=baseline.model, **fields)


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragment_of_an_empty_team_says_what_will_be_there(name, team, viewer, client_of):
    answer = client_of(viewer).get(reverse(f"jobs:{name}", args=[team.slug]))
    assert answer.status_code == 200


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragment_is_absent_for_a_stranger(name, team, stranger, client_of):
    assert client_of(stranger).get(reverse(f"jobs:{name}", args=[team.slug])).status_code == 404


def test_path_of_an_agent_without_anything_else_waits_for_items(team):
    AgentVersionFactory(team=team)
    (row,), more = home_selectors.path_rows(team=team)
    assert [station.glyph for station in row.stations] == ["todo", "todo", "done", "todo", "todo"]
    assert more == 0


def test_path_shows_the_baseline_with_its_verdict(team, member):
    baseline = ready_baseline_of(member)
    baseline.readiness = {"level": "warn", "warnings": 2}
    baseline.save()
    (row,), _ = home_selectors.path_rows(team=team)
    assert row.stations[3].title == "Ready, 2 warnings"
    assert row.stations[3].fact == "mean reward 0.43"
    assert row.stations[4].title == "Not started"


def test_path_of_a_blocked_baseline_says_that_the_job_is_blocked(team, member):
    baseline = ready_baseline_of(member)
    baseline.readiness = {"level": "block"}
    baseline.save()
    (row,), _ = home_selectors.path_rows(team=team)
    assert (row.stations[3].glyph, row.stations[4].title) == ("failed", "Blocked")


def test_path_shows_the_running_job_with_its_last_train_reward(team, member):
    job = job_of(member, ready_baseline_of(member))
    TrainStep.objects.create(job=job, number=22, mean_reward=0.6)
    TrainStep.objects.create(job=job, number=23, mean_reward=0.66)
    (row,), _ = home_selectors.path_rows(team=team)
    assert row.stations[4].title == "Train step 23 of 40"
    assert row.stations[4].fact == "train reward 0.66"


def test_evaluation_of_a_checkpoint_is_not_shown_as_the_baseline(team, member):
    first, later = ready_baseline_of(member), ready_baseline_of(member)
    first.readiness = {"level": "ok"}
    first.save()
    later.agent_version = first.agent_version  # the same agent, answered by another model
    later.status = "failed"
    later.save()
    rows, _ = home_selectors.path_rows(team=team)
    assert [row.stations[3].title for row in rows if row.stations[3].is_reached] == ["Ready"]


@pytest.mark.parametrize("count", [2, 6])
def test_path_asks_the_same_number_of_queries_for_any_number_of_agents(
    count, team, member, django_assert_max_num_queries
):
    for _ in range(count):
        job_of(member, ready_baseline_of(member))
    with django_assert_max_num_queries(9):
        home_selectors.path_rows(team=team)


def test_needs_are_sorted_by_urgency(team, member):
    failed = job_of(member, ready_baseline_of(member), status="failed", finished_at=timezone.now())
    failed.error = {"message": "Out of memory at train step 3."}
    failed.save()
    job_of(member, ready_baseline_of(member), heartbeat_at=timezone.now() - timedelta(minutes=20))
    FrozenVersionFactory(team=team, status="draft")
    found = home_needs.needs(team=team)
    assert [need.urgency for need in found] == sorted(need.urgency for need in found)


def test_finished_baseline_asks_for_a_launch_until_it_has_a_job(team, member):
    baseline = ready_baseline_of(member)
    assert any("is finished" in need.claim for need in home_needs._evaluation_needs(team))
    job_of(member, baseline)
    assert not list(home_needs._evaluation_needs(team))


def test_running_counts_jobs_and_evaluations(team, member):
    baseline = ready_baseline_of(member)
    job_of(member, baseline)
    baseline.status = "running"
    baseline.save()
    rows = home_running.running(team=team)
    assert [row.kind for row in rows] == ["Job", "Evaluation"]
    assert (rows[1].done, rows[1].total) == (18, 18)


def test_running_shows_nothing_of_another_team(team, stranger):
    job_of(stranger, ready_baseline_of(stranger))
    assert home_running.running(team=team) == []


def test_story_tells_deeds_in_words(team, member):
    audit(member, "api_key.created", name="nightly")
    audit(member, "evaluation.started", number=3)
    assert [deed.what for deed in home_needs.story(team=team)] == [
        "started an evaluation: 3",
        "created an API key: nightly",
    ]


def test_jump_finds_pages_and_things_of_the_own_team_only(team, member, stranger):
    ready_baseline_of(member)
    ready_baseline_of(stranger)
    assert [hit.name for hit in home_jump.jump_hits(team=team, text="member")] == ["Members"]
    hits = home_jump.jump_hits(team=team, text="clerk")
    assert len([hit for hit in hits if hit.kind == "agent"]) <= 1


@pytest.mark.parametrize("text", ["", "'", "%", "9" * 40, "ftjob-", "日本"])
def test_jump_takes_any_text(text, team, viewer, client_of):
    assert client_of(viewer).get(reverse("jobs:jump", args=[team.slug]), {"q": text}).status_code == 200
