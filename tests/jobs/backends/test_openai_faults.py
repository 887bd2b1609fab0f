"""What goes wrong between us and a hosted provider: limits, outages, answers that are lost, refusals in the middle of a run."""

import time

import pytest

from jobs import supervision, troubles
from jobs.backends.openai.backend import OpenAIBackend
from jobs.models import Job
from jobs.services import job_cancel, job_launch, job_pause
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
    found = baseline.model
    found.kind, found.model, found.base_url = "openai", "gpt-5-2025-08-07", service.url + "/v1"
    found.is_trainable, found.api_key_sealed = False, seal("sk-fake")
    found.save()
    return found


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
