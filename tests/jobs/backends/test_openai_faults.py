"""What goes wrong between us and a hosted provider: limits, outages, answers that are lost, refusals in the middle of a run."""

import time
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs import supervision, troubles
from jobs.backends.openai.backend import OpenAIBackend
from jobs.checkpoints import _remove, checkpoints_expire
from jobs.models import Job
from jobs.services import job_cancel, job_launch, job_pause
from rftstudio.core.errors import UserError
from rftstudio.core.sealed import seal
from tests.factories.studio import ready_baseline_of
from tests.fakes.hosted import HostedService
from tests.fakes.server import Reply

pytestmark = pytest.mark.django_db(transaction=True)
JOBS = "/v1/fine_tuning/jobs"


class Killed(BaseException):
    """The worker ended here, with signal 9."""


@pytest.fixture
def service(settings, monkeypatch):
    monkeypatch.setattr(supervision, "HOSTED_LOOK_SECONDS", 0.0)
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    with HostedService(total_steps=2) as found:
        yield found


@pytest.fixture
def baseline(member):
    return ready_baseline_of(member)


@pytest.fixture
def model(baseline, service):
    service.take(baseline.model)
    return baseline.model


@pytest.fixture
def job(member, baseline, model) -> Job:
    return job_launch(actor=member, baseline=baseline, plan={"n_epochs": 1}, backend="openai")


def look(job: Job, service: HostedService, *, until: str = "", turns: int = 12) -> Job:
    """Looks as the beat asks for them; one alone without `until`."""
    for _ in range(turns if until else 1):
        supervision.jobs_sync()
        job.refresh_from_db()
        if job.status == until:
            return job
        if until:
            service.advance()
    assert not until, f"still {job.status}: {job.status_note} {job.error}"
    return job


def test_create_whose_answer_is_lost_makes_no_second_job(job, service):
    heard = []

    def cut(request):
        if request.method == "POST" and request.path == JOBS and not heard:
            heard.append(service.create(request.json()))
            return Reply(cut=True)
        return None

    service.interrupt = cut
    look(job, service)
    assert (job.status, job.external_id, len(service.jobs)) == ("running", "", 1)
    assert "did not answer" in job.status_note
    look(job, service, until="succeeded")
    assert list(service.jobs) == [job.external_id]
    assert len(service.sent) == 2


def test_cancel_reaches_a_job_whose_start_was_never_noted(job, service, member):
    def cut(request):
        if request.method == "POST" and request.path == JOBS:
            service.create(request.json())
            return Reply(cut=True)
        return None

    service.interrupt = cut
    look(job, service)
    service.interrupt = lambda request: None
    job_cancel(actor=member, job=job)
    look(job, service)
    assert job.status == "cancelled"
    assert [one["status"] for one in service.jobs.values()] == ["cancelled"]


def test_worker_that_dies_behind_the_create_leaves_a_job_that_is_found(job, service, monkeypatch):
    real = OpenAIBackend.submit

    def dies(self, run, work):
        real(self, run, work)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(OpenAIBackend, "submit", dies)
        patch.setattr(supervision.Lease, "give_back", lambda self: None)
        with pytest.raises(Killed):
            supervision.jobs_sync()
    look(job, service)
    assert (job.status, job.external_id, len(service.jobs)) == ("running", "", 1)
    assert (job.lease_until - job.updated_at).total_seconds() > 600, (
        "nobody starts it while the first may still be at it"
    )
    Job.objects.update(lease_until=None)
    look(job, service, until="succeeded")
    assert len(service.jobs) == 1


def test_provider_that_ignores_the_filter_does_not_hide_our_job(job, service):
    look(job, service, until="running")
    service.knows_metadata = False
    remote = service.told[job.external_id]
    for n in range(120):
        service.create({**remote, "metadata": {"studio_job": f"another-{n}"}})
    before = len(service.jobs)
    Job.objects.update(external_id="")
    look(job, service)
    assert job.external_id == next(iter(service.jobs))
    assert len(service.jobs) == before


def test_rate_limit_is_waited_out_and_the_files_are_sent_once(job, service, monkeypatch):
    refusal = {"error": {"message": "Too many", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}
    asked = []

    def limited(request):
        if request.method == "POST" and request.path == JOBS:
            asked.append(time.monotonic())
            return Reply.of(refusal, 429, headers={"Retry-After": "40"})
        return None

    service.interrupt = limited
    for _ in range(3):
        look(job, service)
    assert (job.status, len(asked)) == ("queued", 1), "asked once, and then left alone"
    assert "429" in job.status_note
    assert 30 < job.process["ask_at"] - time.time() <= 40
    Job.objects.update(process={})
    look(job, service)
    assert (len(asked), len(service.sent)) == (2, 2), "the files of the first try serve the second"
    service.interrupt = lambda request: None
    Job.objects.update(process={})
    look(job, service, until="succeeded")


@pytest.mark.parametrize("status", [500, 502, 503])
def test_server_fault_in_the_middle_of_a_run_is_no_fault_of_the_job(job, service, status):
    look(job, service, until="running")
    service.interrupt = lambda request: Reply.of({"error": {"message": "oops"}}, status)
    for _ in range(troubles.MOST_FAULTS + 1):
        look(job, service)
    assert (job.status, job.process.get("faults")) == ("running", None)
    service.interrupt = lambda request: None
    look(job, service, until="succeeded")


def test_key_that_is_withdrawn_holds_nobody_up_and_the_job_goes_on_with_a_new_one(job, service, model, member):
    look(job, service, until="running")
    other = job_launch(actor=member, baseline=job.baseline, plan={"n_epochs": 1}, backend="openai")
    model.api_key_sealed = seal("sk-old")
    model.save()
    for _ in range(troubles.MOST_FAULTS + 1):
        look(job, service)
    other.refresh_from_db()
    assert other.status == "failed", "it was looked at too"
    assert job.status == "running"
    assert "Enter a new key" in job.status_note
    assert job.events.filter(message__contains="Enter a new key").count() == 1
    model.api_key_sealed = seal("sk-fake")
    model.save()
    look(job, service, until="succeeded")
    assert "key" not in job.status_note


def test_job_that_the_provider_has_lost_fails_in_its_words(job, service):
    look(job, service, until="running")
    service.jobs.clear()
    for _ in range(troubles.MOST_FAULTS):
        look(job, service)
    assert job.status == "failed"
    assert job.error["code"] == "not_found"
    assert "No such job" in job.error["message"]


def test_pause_that_the_provider_refuses_leaves_the_job_running_and_says_so(job, service, member):
    look(job, service, until="running")
    service.advance()
    refusal = {"error": {"message": "Pause is not supported.", "type": "x", "param": None, "code": "unsupported"}}
    service.interrupt = lambda request: Reply.of(refusal, 400) if request.path.endswith("/pause") else None
    job_pause(actor=member, job=job)
    look(job, service)
    assert job.status == "running"
    assert "Pause is not supported." in job.status_note
    look(job, service, until="succeeded")


def test_pause_and_cancel_do_not_wait_for_the_provider_in_the_request(job, service, member):
    look(job, service, until="running")
    asked = len(service.requests)
    service.is_down = True
    assert job_pause(actor=member, job=job).status == "pausing"
    assert job_cancel(actor=member, job=job).status == "cancelling"
    assert len(service.requests) == asked
    service.is_down = False
    look(job, service)
    assert (job.status, service.jobs[job.external_id]["status"]) == ("cancelled", "cancelled")


def test_job_that_failed_without_a_reason_tells_its_last_event(job, service):
    look(job, service, until="running")
    service._say(job.external_id, "Safety screening did not pass", "moderation_checks", {"violence": "blocked"})
    service.jobs[job.external_id]["status"] = "failed"
    look(job, service)
    assert job.error["code"] == "provider_error"
    assert "Safety screening did not pass" in job.error["message"]
    screening = job.events.get(type="moderation_checks")
    assert screening.data == {"violence": "blocked"}


def test_private_address_of_a_provider_is_refused_in_words(job, model):
    model.base_url = "http://10.1.2.3/v1"
    model.save()
    look(job, None)
    assert (job.status, job.error["code"]) == ("failed", "address_refused")


def test_job_that_cannot_be_paused_is_ended_when_its_money_is_used_up(job, service, monkeypatch):
    look(job, service, until="running")
    service.advance()
    refusal = {"error": {"message": "Pause is not supported.", "type": "x", "param": None, "code": "unsupported"}}
    service.interrupt = lambda request: Reply.of(refusal, 400) if request.path.endswith("/pause") else None
    monkeypatch.setattr(supervision.holds, "stop_reason", lambda job: "The money held is used up.")
    for _ in range(2):
        look(job, service)
    assert job.status == "cancelled"
    assert "used up" in job.status_note
    assert "cannot be paused there" in job.status_note
    assert service.jobs[job.external_id]["status"] == "cancelled"


# -- answers that are none, and odd values ------------------------------------------------------------------------------

HTML = Reply(200, b"<html>Down for maintenance</html>", {"Content-Type": "text/html"})
LIST, NOTHING, OBJECT = Reply.of([1]), Reply(200, b"", {"Content-Type": "application/json"}), Reply.of({})


@pytest.mark.parametrize(
    ("path", "answer"), [("/events", HTML), ("/events", OBJECT), ("/checkpoints", LIST), ("/ftjob-", NOTHING)]
)
def test_answer_that_is_none_is_asked_for_again_and_no_fault_of_the_job(job, service, path, answer):
    look(job, service, until="running")
    service.advance()
    seen, cursor = [], job.journal_cursor

    def between(request):
        if path in request.path:
            seen.append(request.path)
            return answer
        return None

    service.interrupt = between
    look(job, service)
    assert seen
    assert (job.status, job.process.get("faults"), job.journal_cursor) == ("running", None, cursor)
    assert "ask_at" in job.process


@pytest.mark.parametrize("answer", [HTML, LIST, OBJECT], ids=["page", "list", "object"])
def test_list_of_jobs_that_is_none_makes_no_second_job(job, service, answer):
    look(job, service, until="running")
    Job.objects.update(external_id="")
    service.interrupt = lambda request: answer if request.path.startswith(JOBS + "?") else None
    look(job, service)
    assert (len(service.jobs), job.external_id) == (1, "")


def test_create_answered_by_a_page_may_have_been_heard(job, service):
    def between(request):
        if request.method == "POST" and request.path == JOBS and not service.jobs:
            service.create(request.json())
            return HTML
        return None

    service.interrupt = between
    look(job, service)
    assert (job.status, job.external_id) == ("running", "")
    Job.objects.update(process={})
    look(job, service)
    assert [job.external_id] == list(service.jobs)


def test_list_of_events_without_an_end_is_left(job, service):
    look(job, service, until="running")
    page = {"object": "list", "data": service.events[job.external_id][:1], "has_more": True}
    service.interrupt = lambda request: Reply.of(page) if "/events" in request.path else None
    before = len(service.requests)
    look(job, service)
    assert job.status == "running"
    assert len(service.requests) - before < 10


def metrics(**data) -> dict:
    return {"object": "fine_tuning.job.event", "id": "e", "created_at": 1_796_000_000, "level": "info", "message": "m",
            "type": "metrics", "data": {"step": 1, "total_steps": 2, "train_mean_reward": 0.5, **data}}  # fmt: skip


NAN = float("nan")
ODD = [
    metrics(step=-3), metrics(step=None), metrics(step="three"), metrics(step=10**30), metrics(step=NAN), metrics(step={}),
    metrics(total_steps=-1), metrics(total_steps="x"), metrics(timing=[1]), metrics(timing={"step": {"full_iteration": NAN}}),
    metrics(timing={"step": {"full_iteration": 1e300}}), metrics(train_mean_reward=1e308), metrics(train_mean_reward=10**400),
    metrics(train_mean_reward={"a": 1}), metrics(tools=["a"]), metrics(studio="x"), metrics(studio={"interval": [1], "tools": 3}),
    metrics(studio_validation={"interval": "abc"}, full_valid_mean_reward=0.4), metrics(seconds=10**400),
    metrics() | {"created_at": None}, metrics() | {"created_at": 1_796_000_000_000}, metrics() | {"created_at": "today"},
    metrics() | {"message": "a\x00\ud800", "type": "message", "data": {"k\x00": "\ud800"}},
]  # fmt: skip


def test_odd_events_spoil_neither_look_nor_page(job, service, client_of, member):
    look(job, service, until="running")
    for n, event in enumerate(ODD):
        step = event["data"].get("step")
        own = {"step": n + 2} if step == 1 else {}
        service.events[job.external_id].append(event | {"id": f"e{n}", "data": event["data"] | own})
    look(job, service)
    assert (job.status, job.process.get("faults")) == ("running", None)
    assert job.journal_cursor == len(service.events[job.external_id])
    assert not job.train_steps.filter(number__gt=len(ODD) + 1).exists()
    page = client_of(member).get(reverse("jobs:job-detail", args=[member.team.slug, job.public_id]))
    assert page.status_code == 200


@pytest.mark.parametrize(
    "odd",
    [{"step_number": -1}, {"step_number": 10**30}, {"fine_tuned_model_checkpoint": None}],
)
def test_checkpoint_that_cannot_be_served_is_told_of_once(job, service, odd):
    look(job, service, until="running")
    service.advance()
    service.advance()
    service.checkpoints[job.external_id][0].update(odd)
    look(job, service)
    look(job, service)
    assert job.process.get("faults") is None
    assert not job.checkpoints.exists()
    assert job.events.filter(message__contains="is left out").count() == 1


@pytest.mark.parametrize("odd", [{"metrics": [1], "created_at": None}, {"metrics": None, "created_at": "x"}])
def test_checkpoint_with_odd_facts_is_kept(job, service, odd):
    look(job, service, until="running")
    service.advance()
    service.advance()
    service.checkpoints[job.external_id][0].update(odd)
    look(job, service)
    assert job.checkpoints.get().step_number == 1


@pytest.mark.parametrize(
    "odd",
    [{"finished_at": "x"}, {"finished_at": 10**30}, {"finished_at": -1, "usage_metrics": "x"}, {"created_at": None},
     {"usage_metrics": {"training_time_seconds": "abc"}}],
)  # fmt: skip
def test_end_with_odd_facts_is_an_end(job, service, client_of, member, odd):
    look(job, service, until="running")
    service.jobs[job.external_id].update({"status": "succeeded"} | odd)
    look(job, service)
    assert job.status == "succeeded"
    assert job.result["seconds"] is None or job.result["seconds"] >= 0
    page = client_of(member).get(reverse("jobs:job-detail", args=[member.team.slug, job.public_id]))
    assert page.status_code == 200


def test_wait_that_is_no_number_holds_up_nothing(job, service):
    look(job, service, until="running")
    service.interrupt = lambda request: Reply.of({"error": {"message": "x"}}, 503, headers={"Retry-After": "nan"})
    look(job, service)
    assert job.process["ask_at"] == pytest.approx(time.time(), abs=60)


def test_clock_set_back_does_not_leave_a_job_alone_for_good(job, service):
    look(job, service, until="running")
    Job.objects.update(process={"ask_at": time.time() + 86_400})
    service.advance()
    service.advance()
    look(job, service)
    assert job.done_steps == 1


def test_job_deleted_under_a_look_does_not_hold_up_the_others(job, service, member, baseline, monkeypatch):
    other = job_launch(actor=member, baseline=baseline, plan={"n_epochs": 1}, backend="openai")
    real = supervision._look

    def gone(found, lease):
        if found.pk == job.pk:
            Job.objects.filter(pk=job.pk).delete()
        return real(found, lease)

    monkeypatch.setattr(supervision, "_look", gone)
    supervision.jobs_sync()
    other.refresh_from_db()
    assert other.status == "running"


# -- what a provider calls its checkpoints is no path -------------------------------------------------------------------


def test_hosted_checkpoint_named_like_a_folder_deletes_nothing(job, service, tmp_path):
    keep = tmp_path / "keep.txt"
    keep.write_text("ours")
    look(job, service, until="running")
    service.advance()
    service.advance()
    service.checkpoints[job.external_id][0]["fine_tuned_model_checkpoint"] = str(tmp_path)
    look(job, service)
    found = job.checkpoints.get()
    assert found.path == str(tmp_path)
    job.checkpoints.update(expires_at=timezone.now() - timedelta(days=1))
    assert checkpoints_expire() == 0
    _remove(found)
    assert keep.read_text() == "ours"


# -- a plan that would not be followed ------------------------------------------------------------------------------------


def test_hosted_supervised_job_refuses_what_only_practising_knows(member, baseline, model):
    choice = {"from": "references", "field": "answer"}
    for plan, label in (({"eval_interval": 3}, "validation"), ({"reasoning_effort": "high"}, "Reasoning effort")):
        with pytest.raises(UserError, match=label):
            job_launch(
                actor=member, baseline=baseline, plan=plan, backend="openai", method="supervised", demonstrations=choice
            )
    with pytest.raises(UserError, match="Keep checkpoints"):
        job_launch(actor=member, baseline=baseline, plan={"keep_days": 9}, backend="openai")
