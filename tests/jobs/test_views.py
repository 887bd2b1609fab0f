"""Job pages: what people see and may do."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobs import selectors, supervision
from jobs.agents.services import agent_version_republish
from jobs.columns import COLUMNS
from jobs.costs import step_charge
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import address
from jobs.evaluations.services import evaluation_start
from jobs.events import event_note
from jobs.models import Checkpoint, Job, JobEvent, TrainStep
from jobs.services import job_launch
from rftstudio.teams.models import AuditEvent
from tests.factories.agents import AgentVersionFactory
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory
from tests.factories.studio import GraderVersionFactory, ModelEndpointFactory, ready_baseline_of
from tests.factories.usage import PriceFactory


def at(name: str, team, *args, query: str = "") -> str:
    return reverse(f"jobs:{name}", args=[team.slug, *args]) + query


EVERY_COLUMN = "?" + "&".join(f"column={column.key}" for column in COLUMNS)


def with_steps(job: Job, count: int = 6) -> Job:
    for n in range(1, count + 1):
        own = {"groups": 8, "groups_low": 2, "groups_high": 1, "tools": {"lookup": 1.5, "calc": 0.5}, "tokens_mean": 30.0,
               "sub_rewards": {"exact": 0.3 + n / 20}, "ungraded_share": 0.0, "mean_reward": 0.3 + n / 20}  # fmt: skip
        TrainStep.objects.create(
            job=job, number=n, mean_reward=0.3 + n / 20, validation_reward=0.35 + n / 20 if n % 2 == 0 else None,
            metrics={"studio": own, "seconds": 2.0, "entropy": 1.1, "grad_norm": 0.4}, at=timezone.now(),
        )  # fmt: skip
    checkpoint = Checkpoint.objects.create(
        team=job.team, job=job, step_number=count, path="/gone", validation_reward=0.6, digest="a"
    )
    Job.objects.filter(pk=job.pk).update(
        done_steps=count, total_steps=10, best_checkpoint=checkpoint, status="running", heartbeat_at=timezone.now()
    )
    job.refresh_from_db()
    return job


@pytest.fixture
def job(member, ready_baseline):
    return with_steps(job_launch(actor=member, baseline=ready_baseline, plan={"max_steps": 10}, name="first try"))


def test_job_detail_of_a_running_job_answers_its_question(client_of, member, job):
    page = client_of(member).get(at("job-detail", member.team, job.public_id)).content.decode()
    for words in ("The model is practising", "Train step 6 of 10", "reward-curve", "tool-calls", "flat-groups",
                  "Train and validation move together", "best", "exact", "Last sign of life", "Launched by"):  # fmt: skip
        assert words in page, words
    assert page.count("every 5s") == 1
    assert page.count("every 15s") == 1
    assert " style=" not in page.split("<main")[1]
    if address("rollouts:rollout-list", member.team.slug):
        assert f"/rollouts/?source={job.public_id}" in page


def test_job_fragments_of_an_ended_job_carry_no_trigger(client_of, member, job):
    client = client_of(member)
    for name in ("job-state", "job-charts"):
        assert "hx-trigger" in client.get(at(name, member.team, job.public_id)).content.decode()
    Job.objects.update(status="succeeded", finished_at=timezone.now(), result={"seconds": 58, "rollouts": 5120})
    for name in ("job-state", "job-charts"):
        assert "hx-trigger" not in client.get(at(name, member.team, job.public_id)).content.decode()


@pytest.mark.parametrize("status", [status.value for status in Job.Status])
def test_job_detail_says_every_status_in_plain_words(client_of, member, job, status):
    from jobs.states import WORDS

    error = {"code": "trainer_died", "message": "The trainer died 4 times.", "param": None}
    Job.objects.update(status=status, error=error if status == "failed" else None, queued_at=timezone.now())
    page = client_of(member).get(at("job-detail", member.team, job.public_id)).content.decode()
    assert WORDS[status].title in page
    assert WORDS[status].next.split(";")[0] in page.replace("&#x27;", "'")
    assert ("The trainer died 4 times." in page) == (status == "failed")


def test_job_that_was_evaluated_says_to_compare_and_one_that_was_promoted_says_nothing(client_of, member, job):
    Job.objects.update(status="succeeded", finished_at=timezone.now())
    best, client = job.best_checkpoint, client_of(member)

    def state() -> str:
        return client.get(at("job-state", member.team, job.public_id)).content.decode()

    assert "Evaluate the best checkpoint on the test split" in state()
    assert at("checkpoint-evaluate", member.team, best.public_id) in state()
    best.model = ModelEndpointFactory(team=member.team)
    best.save()
    parts = {name: getattr(job.baseline, name) for name in ("dataset_version", "agent_version", "grader_version")}
    evaluation = evaluation_start(actor=member, model=best.model, samples_per_item=1, **parts)
    assert "evaluation is queued" in state()
    Evaluation.objects.filter(pk=evaluation.pk).update(status="succeeded")
    page = state()
    assert "has been evaluated" in page
    assert f"a={job.baseline.public_id}&amp;b={evaluation.public_id}" in page
    assert at("checkpoint-evaluate", member.team, best.public_id) not in page
    version = agent_version_republish(actor=member, version=job.baseline.agent_version, model=best.model, note="")
    assert f"{version} answers with its best checkpoint" in state()


def test_evaluations_by_another_grader_are_second_opinions_beside_the_base_on_the_same_items(client_of, member, job):
    model = ModelEndpointFactory(team=member.team)
    Checkpoint.objects.update(model=model)
    parts = {name: getattr(job.baseline, name) for name in ("dataset_version", "agent_version")}
    parts["grader_version"] = GraderVersionFactory(team=member.team)
    for who, mean, split in (
        (job.base_model, 0.5, "test"),
        (model, 0.3, "test"),
        (model, 0.1, "validation"),  # no base to set it beside
    ):
        made = evaluation_start(actor=member, model=who, split=split, samples_per_item=1, **parts)
        Evaluation.objects.filter(pk=made.pk).update(status="succeeded", metrics={"mean_reward": mean})
    (one,) = selectors.second_opinions(job)
    assert (one.step, one.before, one.after) == (6, 0.5, 0.3)
    assert selectors.second_opinions(job, since=6) == []
    page = client_of(member).get(at("job-charts", member.team, job.public_id)).content.decode()
    assert "Another grader sees it fall" in page
    assert f"?source={one.source}" in page


@pytest.mark.parametrize("other", ["prompt", "drawn items"])
def test_base_evaluated_with_another_prompt_or_on_other_items_is_no_before(member, job, other):
    model = ModelEndpointFactory(team=member.team)
    Checkpoint.objects.update(model=model)
    baseline = job.baseline
    parts = {"dataset_version": baseline.dataset_version, "agent_version": baseline.agent_version}
    parts |= {"grader_version": GraderVersionFactory(team=member.team), "split": "test", "samples_per_item": 1}
    drawn = {"max_items": 2, "seed": 0} if other == "drawn items" else {}
    strange = {"max_items": 2, "seed": 1}
    if other == "prompt":
        strange = {"agent_version": AgentVersionFactory(team=member.team, model=job.base_model)}
    rows = [(job.base_model, 0.5, drawn), (model, 0.4, drawn), (job.base_model, 0.9, strange)]
    for who, mean, how in rows:
        made = evaluation_start(actor=member, model=who, **parts | how)
        Evaluation.objects.filter(pk=made.pk).update(status="succeeded", metrics={"mean_reward": mean})
    assert [(one.before, one.after) for one in selectors.second_opinions(job)] == [(0.5, 0.4)]


def test_job_state_reads_no_rollouts(client_of, member, job):
    client, address = client_of(member), at("job-state", member.team, job.public_id)
    TrainStep.objects.filter(job=job).update(rollouts=24, validation_rollouts=2)
    with CaptureQueriesContext(connection) as queries:
        page = client.get(address).content.decode()
    assert "144 training, 12 validation" in page
    assert not [query for query in queries.captured_queries if "rollouts_rollout" in query["sql"]]


def test_job_state_of_a_queued_job_names_its_place(client_of, member, job, ready_baseline):
    second = job_launch(actor=member, baseline=ready_baseline, plan={})
    Job.objects.filter(pk=second.pk).update(status="queued", queued_at=timezone.now())
    page = client_of(member).get(at("job-state", member.team, second.public_id)).content.decode()
    assert "number 1 in line" in page
    assert "Job 1 is training now" in page


def test_job_state_of_a_job_that_nobody_takes_up_says_that_workers_are_down(client_of, member, ready_baseline):
    job = job_launch(actor=member, baseline=ready_baseline, plan={})
    client, page = client_of(member), at("job-state", member.team, job.public_id)
    assert "no worker has taken it up" not in client.get(page).content.decode()
    early = timezone.now() - timedelta(minutes=3)
    JobEvent.objects.update(created_at=early)
    assert "no worker has taken it up" in client.get(page).content.decode()
    Job.objects.filter(pk=job.pk).update(status="queued", queued_at=early)
    assert "no worker has taken it up" in client.get(page).content.decode()
    first = job_launch(actor=member, baseline=ready_baseline, plan={})
    Job.objects.filter(pk=first.pk).update(status="running")
    assert "no worker has taken it up" not in client.get(page).content.decode(), "it waits for the other one"
    Job.objects.filter(pk=first.pk).update(status="succeeded", finished_at=timezone.now())
    assert "no worker has taken it up" not in client.get(page).content.decode(), "its turn came just now"


def test_job_that_failed_before_it_began_keeps_nothing_and_leads_to_the_launch_form(client_of, member, viewer, job):
    Checkpoint.objects.all().delete()
    Job.objects.update(
        status="failed", done_steps=0, queued_at=None, started_at=None,
        error={"code": "bad_row", "message": "Line 17: the last message is from the assistant.", "param": None},
    )  # fmt: skip
    state = at("job-state", member.team, job.public_id)
    page = client_of(member).get(state).content.decode()
    for words in (
        "Line 17",
        "Stopped while checking files",
        "nothing to keep",
        f"clone={job.public_id}",
        "nothing yet",
    ):
        assert words in page, words
    assert "Files checked" not in page
    assert f"clone={job.public_id}" not in client_of(viewer).get(state).content.decode()


def test_job_cancelled_without_a_checkpoint_offers_none_to_evaluate(client_of, member, job):
    Checkpoint.objects.all().delete()
    Job.objects.update(status="cancelled", best_checkpoint=None)
    page = client_of(member).get(at("job-state", member.team, job.public_id)).content.decode()
    assert "No checkpoint is kept; launch it again" in page
    assert "Evaluate" not in page


def test_job_paused_says_what_resuming_holds_and_where_the_reason_is(client_of, member, job):
    PriceFactory(usd="0.02")
    for step in range(1, 7):
        step_charge(job, step=step, attempt=1, seconds=5, at=timezone.now())
    client, state = client_of(member), at("job-state", member.team, job.public_id)
    page = client.get(state).content.decode()
    assert "$0.60" in page
    assert "near $1.00 at the end" in page, "six of ten train steps cost $0.60"
    Job.objects.update(status="paused", status_note="Paused at $0.60: the plan stops at $0.50.")
    page = client.get(state).content.decode()
    assert "Resume and hold $0.50" in page, "four more at $0.10, and a quarter more than that"
    assert f"/ledger/?for={job.public_id}" in page
    Job.objects.update(status_note="Paused by rule on an alarm: Train runs away from validation.")
    assert 'href="#alarms"' in client.get(state).content.decode()


def test_job_running_says_when_validation_is_checked_next(client_of, member, job):
    Job.objects.update(plan=job.plan | {"eval_interval": 4})
    page = client_of(member).get(at("job-state", member.team, job.public_id)).content.decode()
    assert "after train step 8, in about 4 s" in page, "two more train steps of 2 s"


def test_job_estimate_stands_beside_the_truth(client_of, member, job):
    estimate = {"low": 30.0, "high": 90.0, "seconds": 60.0, "usd": 0.60, "usd_high": 0.90}
    JobEvent.objects.filter(data__has_key="estimate").update(data={"estimate": estimate})
    PriceFactory(usd="0.02")
    step_charge(job, step=1, attempt=1, seconds=50, at=timezone.now())
    Job.objects.update(status="succeeded", finished_at=timezone.now(), result={"seconds": 50, "rollouts": 60})
    page = client_of(member).get(at("job-state", member.team, job.public_id)).content.decode()
    assert "30 s to 1 min 30 s; it held" in page
    assert "$0.60, at most $0.90; it did not hold" in page, "50 s at $0.02 are $1.00"


def test_job_state_of_a_silent_job_says_since_when(client_of, member, job):
    Job.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=6))
    page = client_of(member).get(at("job-state", member.team, job.public_id)).content.decode()
    assert "No sign of life since" in page
    assert "pill--warn" in page


def test_job_detail_before_the_first_step_says_what_will_appear(client_of, member, ready_baseline):
    job = job_launch(actor=member, baseline=ready_baseline, plan={})
    page = client_of(member).get(at("job-detail", member.team, job.public_id)).content.decode()
    assert "After the first train step this shows" in page
    assert "Nothing to judge yet." in page


@pytest.mark.parametrize("name", ["job-detail", "job-state", "job-charts", "job-events"])
def test_job_pages_are_hidden_from_strangers(client_of, stranger, job, name):
    assert client_of(stranger).get(at(name, job.team, job.public_id)).status_code == 404
    assert client_of(stranger).get(at(name, stranger.team, job.public_id)).status_code == 404


@pytest.mark.parametrize("name", ["job-pause", "job-resume", "job-cancel"])
def test_job_actions_are_refused_to_viewers_and_hidden_from_strangers(client_of, viewer, stranger, job, name):
    assert client_of(viewer).post(at(name, viewer.team, job.public_id)).status_code == 403
    assert client_of(stranger).post(at(name, stranger.team, job.public_id)).status_code == 404
    assert client_of(viewer).get(at(name, viewer.team, job.public_id)).status_code == 405
    job.refresh_from_db()
    assert job.status == "running"


def test_job_pages_show_a_viewer_no_actions(client_of, viewer, job):
    client = client_of(viewer)
    page = client.get(at("job-detail", viewer.team, job.public_id)).content.decode()
    assert "Pause</button>" not in page
    assert "Evaluate</button>" not in page
    assert client.get(at("job-new", viewer.team)).status_code == 403


def test_job_cancel_and_pause_lead_back_to_the_job(client_of, member, job):
    client = client_of(member)
    answer = client.post(at("job-pause", member.team, job.public_id))
    assert answer["Location"] == at("job-detail", member.team, job.public_id)
    job.refresh_from_db()
    assert job.status == "pausing"
    client.post(at("job-cancel", member.team, job.public_id), {"note": "wrong data"})
    job.refresh_from_db()
    assert job.status == "cancelling"
    assert "wrong data" in job.status_note


def test_job_action_in_the_wrong_state_is_said_in_words(client_of, member, job):
    answer = client_of(member).post(at("job-resume", member.team, job.public_id))
    assert answer.status_code == 409
    assert "only a paused job can be resumed" in answer.content.decode()


def test_job_list_asks_as_many_queries_for_twenty_as_for_ten(client_of, member, ready_baseline):
    client, counts = client_of(member), []
    for _ in range(2):
        for _ in range(10):
            with_steps(job_launch(actor=member, baseline=ready_baseline, plan={}), 2)
        with CaptureQueriesContext(connection) as found:
            page = client.get(at("job-list", member.team, query=EVERY_COLUMN))
        counts.append(len(found))
    assert page.status_code == 200
    assert counts[0] == counts[1]


def test_job_list_shows_the_teams_own_and_empty_says_what_to_do(client_of, member, stranger, job):
    page = client_of(member).get(at("job-list", member.team)).content.decode()
    assert "first try" in page
    assert "First a baseline" in client_of(stranger).get(at("job-list", stranger.team)).content.decode()


def test_job_list_shows_the_columns_a_person_chose_until_they_choose_others(client_of, member, job):
    client = client_of(member)

    def head(query: str = "") -> str:
        return (
            client.get(at("job-list", member.team, query=query))
            .content.decode()
            .split("<thead>")[1]
            .split("</thead>")[0]
        )

    assert "Base model" in head()
    chosen = head("?column=seed&column=rate&column=nonsense")
    assert "Seed" in chosen
    assert "Learning rate" in chosen
    assert "Base model" not in chosen
    assert "Seed" in head(), "kept"
    assert "Base model" in head("?column=nonsense"), "none of those there are: the usual ones"


def test_job_new_without_a_baseline_leads_to_one(client_of, member):
    assert "Run a baseline" in client_of(member).get(at("job-new", member.team)).content.decode()


def test_job_new_shows_derived_numbers_estimate_and_readiness(client_of, member, ready_baseline):
    page = (
        client_of(member)
        .get(at("job-new", member.team, query=f"?baseline={ready_baseline.public_id}"))
        .content.decode()
    )
    assert "12 ÷ 8 × 1 = 2" in page
    assert "A rough guess from the pace" in page
    assert "checks passed" in page
    assert "counted, not priced" in page


def test_job_new_starts_from_what_was_measured_before_training(client_of, member, ready_baseline, job):
    tuned = ready_baseline_of(member)
    Checkpoint.objects.create(team=member.team, job=job, step_number=2, path="gone", digest="d" * 64, model=tuned.model)
    page = client_of(member).get(at("job-new", member.team)).content.decode()
    assert f"Baseline {ready_baseline.number}<" in page
    assert f"Baseline {tuned.number}<" not in page


def form_of(page: str, **changes) -> dict:
    key = page.split('name="launch_key" value="')[1].split('"')[0]
    return {
        "launch_key": key,
        "backend": "trl",
        "seed": 0,
        "n_epochs": 1,
        "batch_size": 4,
        "group_size": 4,
        "read_warnings": "on",
    } | changes


def test_job_new_twice_with_one_form_makes_one_job(client_of, member, ready_baseline):
    client, url = client_of(member), at("job-new", member.team, query=f"?baseline={ready_baseline.public_id}")
    form = form_of(client.get(url).content.decode())
    answers = [client.post(url, form) for _ in range(2)]
    assert Job.objects.count() == 1
    assert answers[0].status_code == answers[1].status_code == 302
    assert answers[0]["Location"] == answers[1]["Location"]
    assert Job.objects.get().plan["group_size"] == 4


def test_job_new_with_warnings_wants_one_tick(client_of, member, ready_baseline):
    client, url = client_of(member), at("job-new", member.team, query=f"?baseline={ready_baseline.public_id}")
    answer = client.post(url, form_of(client.get(url).content.decode(), read_warnings=""))
    assert answer.status_code == 422
    assert "Read the warnings and tick this" in answer.content.decode()
    assert not Job.objects.exists()


def test_job_new_with_an_impossible_value_stands_at_its_field(client_of, member, ready_baseline):
    client, url = client_of(member), at("job-new", member.team, query=f"?baseline={ready_baseline.public_id}")
    answer = client.post(url, form_of(client.get(url).content.decode(), n_epochs="2.5", batch_size=99))
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "Write a whole number." in page
    assert not Job.objects.exists()
    answer = client.post(url, form_of(client.get(url).content.decode(), batch_size=99))
    assert "the train split has 12" in answer.content.decode()


def test_job_new_from_a_blocked_baseline_is_refused_with_the_reason(client_of, member, owner):
    flat = ready_baseline_of(member, rewards=(0.0,))
    client, url = client_of(member), at("job-new", member.team, query=f"?baseline={flat.public_id}")
    page = client.get(url).content.decode()
    assert "disabled>Launch the job" in page
    answer = client.post(url, form_of(page, override="please"))
    assert answer.status_code == 422
    assert "The baseline is not ready" in answer.content.decode()
    client = client_of(owner)
    page = client.get(url).content.decode()
    assert "Overrule and launch" in page
    assert client.post(url, form_of(page, override="a dry run")).status_code == 302


def test_job_estimate_follows_the_form(client_of, member, ready_baseline):
    client = client_of(member)
    query = f"?baseline={ready_baseline.public_id}&backend=trl&seed=0&n_epochs=3&batch_size=4"
    assert "12 ÷ 4 × 3 = 9" in client.get(at("job-estimate", member.team, query=query)).content.decode()
    broken = client.get(at("job-estimate", member.team, query=query + "&group_size=x"))
    assert "cannot be read" in broken.content.decode()


def test_job_new_as_a_clone_starts_from_the_other_plan(client_of, member, job, ready_baseline):
    Job.objects.update(plan=job.plan | {"group_size": 5})
    query = f"?baseline={ready_baseline.public_id}&clone={job.public_id}"
    page = client_of(member).get(at("job-new", member.team, query=query)).content.decode()
    assert 'name="group_size" value="5"' in page
    assert "first try, again" in page


def test_job_compare_overlays_and_shows_only_what_differs(client_of, member, job, ready_baseline):
    other = with_steps(job_launch(actor=member, baseline=ready_baseline, plan={"group_size": 4, "max_steps": 10}))
    query = f"?job={job.public_id}&job={other.public_id}"
    page = client_of(member).get(at("job-compare", member.team, query=query)).content.decode()
    assert "compare-train" in page
    settings = page.split("Settings that differ")[1]
    assert "Rollouts per item" in settings
    assert "Temperature" not in settings


def test_job_compare_with_a_foreign_job_is_not_found(client_of, stranger, member, job):
    assert client_of(stranger).get(at("job-compare", stranger.team, query=f"?job={job.public_id}")).status_code == 404


def test_job_events_tell_the_whole_story_by_level(client_of, member, job):
    event_note(job, "The card is hot", level="warn")
    client = client_of(member)
    assert "Launched by" in client.get(at("job-events", member.team, job.public_id)).content.decode()
    page = client.get(at("job-events", member.team, job.public_id, query="?level=warn")).content.decode()
    assert "The card is hot" in page
    assert "Launched by" not in page


def test_job_events_of_a_live_job_come_once_each_however_many_are_added_between_the_pages(client_of, member, job):
    same = timezone.now()
    JobEvent.objects.bulk_create(
        JobEvent(job=job, sequence=n, message=f"event {n}.", created_at=same) for n in range(1, 151)
    )
    client, seen, query = client_of(member), [], ""
    while query is not None:
        page = client.get(at("job-events", member.team, job.public_id, query=query)).content.decode()
        seen += re.findall(r"event (\d+)\.", page)
        more = re.search(r'href="(\?before=[^"]+)"', page)
        query = more and more[1]
        event_note(job, "It goes on.")
    assert [int(n) for n in seen] == list(range(150, 0, -1))


def test_job_pages_of_a_long_job_ask_as_many_queries_as_of_a_short_one(client_of, member, job):
    client, counts = client_of(member), {}
    pages_ = [at(name, member.team, job.public_id) for name in ("job-detail", "job-state", "job-charts", "job-events")]
    like, now = TrainStep.objects.filter(job=job).last(), timezone.now()

    def look() -> None:
        for page in pages_:
            with CaptureQueriesContext(connection) as found:
                assert client.get(page).status_code == 200
            counts.setdefault(page, []).append(len(found))

    look()
    TrainStep.objects.bulk_create(
        TrainStep(job=job, number=n, mean_reward=0.5, metrics=like.metrics, rollouts=24, validation_rollouts=0)
        for n in range(7, 501)
    )
    JobEvent.objects.bulk_create(
        JobEvent(job=job, sequence=n, type="metrics", message="Step", created_at=now) for n in range(1, 1001)
    )
    Job.objects.update(done_steps=500, total_steps=600)
    look()
    assert all(short == long for short, long in counts.values()), counts
    assert len(client.get(pages_[0]).content) < 250_000


def test_alarm_leads_to_the_rollouts_that_show_it_and_to_no_others(client_of, member, job):
    shares = {"groups": 2, "groups_low": 0, "groups_high": 0, "tools": {}, "ungraded_share": 0.5, "mean_reward": 1.0}
    batch = RolloutBatchFactory(team=member.team, source=job.public_id, kind="train_step", train_step=6)
    good, lost = (
        RolloutFactory(batch=batch, group_key=key, reward=reward) for key, reward in (("a", 1.0), ("b", None))
    )
    TrainStep.objects.update(metrics={"studio": shares})
    page = client_of(member).get(at("job-charts", member.team, job.public_id)).content.decode()
    link = re.search(r'href="([^"]+)">Read the ungraded ones: 1 rollout<', page)[1].replace("&amp;", "&")
    listed = client_of(member).get(link + "&by=rollout").content.decode()
    assert lost.public_id in listed
    assert good.public_id not in listed
    lost.delete()
    page = client_of(member).get(at("job-charts", member.team, job.public_id)).content.decode()
    assert "Rollouts stay ungraded" in page
    assert "Read the ungraded ones" not in page, "there is none to read"


def test_alarm_is_muted_for_one_job_and_taken_back(client_of, member, viewer, job):
    TrainStep.objects.filter(job=job).update(mean_reward=0.9)  # far above what validation gives
    Job.objects.update(plan=job.plan | {"stop_alarm": "any"})
    charts = at("job-charts", member.team, job.public_id)
    assert "Mute for this job" not in client_of(viewer).get(charts).content.decode()
    client = client_of(member)
    page = client.get(charts).content.decode()
    assert "<p>1 open</p>" in page
    assert "Mute for this job" in page
    mute = at("alarm-mute", member.team, job.public_id, "gap")
    for _ in range(2):  # a second click changes nothing
        assert client.post(mute)["Location"].endswith("#alarms")
    page = client.get(charts).content.decode()
    assert "<p>0 open</p>" in page
    assert f"Muted by {member.name}" in page
    assert "alarm at" not in page
    assert "Mute for this job" not in page
    supervision._apply_rules(Job.objects.get())
    assert Job.objects.get().status == "running", "it would pause for any open alarm"
    assert JobEvent.objects.filter(message__contains="muted the alarm “Train runs away from validation”").count() == 1
    client.post(mute, {"is_muted": "0"})
    assert "<p>1 open</p>" in client.get(charts).content.decode()
    verbs = AuditEvent.objects.filter(verb__startswith="job.alarm").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["job.alarm_muted", "job.alarm_unmuted"]
    supervision._apply_rules(Job.objects.get())
    assert Job.objects.get().status == "pausing"


def test_alarm_that_is_not_open_cannot_be_muted(client_of, member, job):
    answer = client_of(member).post(at("alarm-mute", member.team, job.public_id, "tools"), follow=True)
    assert answer.status_code == 409
    assert "No alarm named tools is open" in answer.content.decode()
    assert Job.objects.get().muted_alarms == {}


def test_checkpoint_evaluate_measures_it_as_its_baseline_was(client_of, member, job, settings, tmp_path):
    settings.VAR_DIR = tmp_path
    folder = tmp_path / "checkpoint-6"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    Checkpoint.objects.update(path=str(folder))
    checkpoint = Checkpoint.objects.get()
    answer = client_of(member).post(reverse("jobs:checkpoint-evaluate", args=[member.team.slug, checkpoint.public_id]))
    evaluation = Evaluation.objects.order_by("-id").first()
    assert answer["Location"].endswith(f"/evaluations/{evaluation.public_id}/")
    assert evaluation.model.name == "Job 1, train step 6"
    assert (evaluation.split, evaluation.samples_per_item) == ("test", 3)
    page = client_of(member).get(at("job-detail", member.team, job.public_id)).content.decode()
    assert "Evaluations of its checkpoints" in page
