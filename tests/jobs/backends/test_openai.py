"""Hosted jobs through the services, against a wire-true service that calls our gateway as the real one would."""

import pytest
from django.utils import timezone

from datasets.models import SourceFile
from jobs import holds, results, supervision, tasks
from jobs.attribution.models import RolloutCredit
from jobs.backends.openai.refusals import shutdowns
from jobs.backends.registry import backend_get
from jobs.models import Checkpoint, Job
from jobs.results import results_sweep
from jobs.rollouts.models import Gateway, Rollout
from jobs.services import batch_credit, checkpoint_publish, job_cancel, job_launch, job_pause, job_resume, jobs_sync
from rftstudio.core.errors import UpstreamUnavailable, UserError
from rftstudio.core.sealed import seal
from tests.factories.studio import ready_baseline_of
from tests.fakes.hosted import HostedService

pytestmark = pytest.mark.django_db(transaction=True)
CALC = {"name": "calc", "description": "Multiply.", "transport": "builtin", "config": {"builtin": "calculator"},
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                       "required": ["a", "b"]}}  # fmt: skip


@pytest.fixture(autouse=True)
def asked_at_every_look(monkeypatch):
    monkeypatch.setattr(supervision, "HOSTED_LOOK_SECONDS", 0.0)


@pytest.fixture
def service(settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1", "localhost"]
    with HostedService(total_steps=2) as found:
        yield found


@pytest.fixture
def baseline(member, service):
    found = ready_baseline_of(member)
    service.take(found.model)
    return found


@pytest.fixture
def launch(member, baseline):
    return lambda **plan: job_launch(actor=member, baseline=baseline, plan={"n_epochs": 1, **plan}, backend="openai")


def look(job: Job, service: HostedService, *, until: str, turns: int = 12) -> Job:
    for _ in range(turns):
        jobs_sync()
        job.refresh_from_db()
        if job.status == until:
            return job
        service.advance()
    raise AssertionError(f"still {job.status}: {job.status_note} {job.error}")


def test_hosted_job_comes_home_with_metrics_checkpoints_and_story(launch, service, member):
    job = look(launch(), service, until="succeeded")
    assert (job.done_steps, job.total_steps) == (2, 2)
    step = job.train_steps.get(number=2)
    assert step.metrics["a_key_of_tomorrow"] == {"kept": True}, "unknown keys are kept"
    assert step.validation_reward == pytest.approx(0.5)
    assert set(Checkpoint.objects.values_list("step_number", flat=True)) == {1, 2}
    assert not job.events.filter(message__contains="2026").exists(), (
        "this provider is not OpenAI: its dates are not known"
    )
    assert job.events.filter(message="Fine-tuning job started").count() == 1
    model = checkpoint_publish(actor=member, checkpoint=job.best_checkpoint)
    assert (model.kind, model.model) == ("openai", "ft:gpt-5-2025-08-07:org:x:1:ckpt-step-2")
    assert model == checkpoint_publish(actor=member, checkpoint=job.best_checkpoint)


@pytest.mark.parametrize(
    "plan, field, names",
    [
        ({"credit": "prefix_value"}, "credit", "Credit in training"),
        ({"temperature": 0.7, "lora_r": 8}, "temperature", "Temperature, LoRA rank"),
        ({"max_steps": 3}, "max_steps", "Train steps"),
        ({"group_size": 16}, "group_size", "Rollouts per item"),
        ({"extras": {"use_vllm": True}}, "extras", "Trainer extras"),
    ],
)
def test_what_a_provider_would_not_follow_is_refused_before_the_launch(launch, baseline, member, plan, field, names):
    with pytest.raises(UserError, match=f"decides {names} by itself") as refused:
        launch(**plan)
    assert refused.value.where == field
    assert not Job.objects.exists()


def test_what_a_provider_follows_and_what_studio_minds_itself_may_be_chosen(launch, service):
    told = {"n_epochs": 2, "batch_size": 4, "compute_multiplier": 2.0, "eval_interval": 5, "reasoning_effort": "high"}
    job = look(launch(**told, stop_usd=50.0, stop_alarm="any"), service, until="running")
    sent = service.told[job.external_id]["method"]["reinforcement"]["hyperparameters"]
    assert {name: sent[name] for name in told} == told


def test_result_files_of_a_hosted_job_are_kept_and_can_be_downloaded(launch, service, member, client_of, stranger):
    from django.urls import reverse

    service.is_late = True
    job = look(launch(), service, until="succeeded")
    assert "files" not in job.result
    service.write_results(job.external_id)
    asked = len(service.requests)
    jobs_sync()
    assert len(service.requests) == asked, "an ended job is not asked about at every look"
    for _ in range(2):
        results_sweep()
    job.refresh_from_db()
    (file_id,) = job.result["files"]
    assert job.events.filter(message__contains="step_metrics.csv").count() == 1
    address = reverse("jobs:job-result", args=[member.team.slug, job.public_id, file_id])
    client = client_of(member)
    assert address in client.get(reverse("jobs:job-detail", args=[member.team.slug, job.public_id])).content.decode()
    lines = b"".join(client.get(address).streaming_content).decode().splitlines()
    assert lines == ["step,train_mean_reward,full_valid_mean_reward", "1,,0.4", "2,,0.5"]
    assert client_of(stranger).get(address).status_code == 404


def test_result_file_that_fails_to_come_brings_no_other_twice_and_holds_up_no_other_job(launch, service, monkeypatch):
    jobs = [launch(), launch()]
    for job in jobs:
        job.refresh_from_db()
    Job.objects.update(status="succeeded", finished_at=timezone.now(), external_id="ftjob-x")
    keep, fails = results.source_file_upload, {"b.csv": 2}

    def results_of(self, run):
        if run.job_id == jobs[0].public_id:
            raise RuntimeError("not foreseen")
        return {"a.csv": b"1", "b.csv": b"2"}

    def upload(*, filename, **how):
        if fails.get(filename):
            fails[filename] -= 1
            raise UpstreamUnavailable("The disk is away.")
        return keep(filename=filename, **how)

    monkeypatch.setattr(type(backend_get("openai")), "results", results_of)
    monkeypatch.setattr(results, "source_file_upload", upload)
    for _ in range(3):
        results_sweep()
    second = Job.objects.get(pk=jobs[1].pk)
    kept = SourceFile.objects.filter(purpose=SourceFile.RESULTS).order_by("filename")
    assert [one.filename for one in kept] == ["a.csv", "b.csv"]
    assert second.result == {"files": [one.public_id for one in kept]}
    assert second.events.filter(message__contains="Kept the provider's result files: a.csv, b.csv.").count() == 1


def test_hosted_job_whose_money_ends_before_the_next_look_is_looked_at_in_time(launch, service, monkeypatch):
    job = look(launch(), service, until="running")
    monkeypatch.setattr(supervision, "HOSTED_LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(holds, "seconds_until_used_up", lambda job: 6.0)
    waits = []
    monkeypatch.setattr(tasks.job_sync, "apply_async", lambda args, countdown, **how: waits.append(countdown))
    asked = len(service.requests)
    supervision.job_sync(job_id=job.pk)
    assert len(service.requests) > asked, "what was queued is asked at once"
    assert waits == [6.0]


def test_hosted_job_sends_files_and_method_in_the_wire_shape(launch, service, baseline):
    agent = baseline.agent_version
    agent.response_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
    agent.save()
    look(launch(eval_samples=3), service, until="running")
    told = next(iter(service.told.values()))
    method = told["method"]["reinforcement"]
    assert told["metadata"]["studio_job"].startswith("ftjob-")
    assert method["hyperparameters"]["eval_samples"] == 3
    assert "max_steps" not in method["hyperparameters"]
    assert method["grader"]["type"] == "string_check"
    assert method["response_format"] == agent.response_format
    rows = service.files[told["training_file"]]
    assert len(rows) == 12
    assert rows[0]["messages"][0] == {"role": "developer", "content": "Answer shortly."}
    assert rows[0]["answer"] == "0", "fields that the grader may read travel along"


def test_hosted_supervised_job_sends_demonstrations_and_calls_nobody_back(member, baseline, service):
    baseline.agent_version.tools = [CALC]
    baseline.agent_version.save()
    job = job_launch(
        actor=member, baseline=baseline, plan={"n_epochs": 3}, backend="openai", method="supervised",
        demonstrations={"from": "references", "field": "answer"},
    )  # fmt: skip
    job = look(job, service, until="succeeded")
    told = next(iter(service.told.values()))
    assert told["method"]["type"] == "supervised"
    assert told["method"]["supervised"]["hyperparameters"]["n_epochs"] == 3
    rows = service.files[told["training_file"]]
    assert [message["role"] for message in rows[1]["messages"]] == ["developer", "user", "assistant"]
    assert rows[1]["messages"][-1]["content"] == "1"
    assert set(rows[1]) == {"messages", "tools"}
    assert told.get("validation_file") is None
    assert not Gateway.objects.exists()


def test_known_ends_of_a_base_model_are_told_before_the_launch(client_of, member, baseline):
    from django.urls import reverse

    model = baseline.model
    model.base_url = "https://api.openai.com/v1"
    model.save()
    page = client_of(member).get(
        reverse("jobs:job-estimate", args=[member.team.slug])
        + f"?baseline={baseline.public_id}&backend=openai&seed=0&n_epochs=1"
    )
    assert "11 December 2026" in page.content.decode()
    assert "6 January 2027" in page.content.decode()


@pytest.mark.parametrize(
    "model, base_url, words",
    [
        ("o4-mini-2025-04-16", "", "23 October 2026"),
        ("o4-mini-2025-04-16", "https://mine.openai.azure.com/openai/v1/", "16 October 2026"),
        ("gpt-5-2025-08-07", "https://mine.openai.azure.com/openai/v1/", "6 February 2027"),
        ("o4-mini", "https://studio.example.com/v1", ""),
        ("o4-mini", "https://notopenai.com/v1", ""),
    ],
)
def test_dates_are_those_of_the_house_that_trains(model, base_url, words):
    told = " ".join(shutdowns(model, base_url))
    assert words in told
    assert bool(told) == bool(words)


def test_hosted_job_whose_service_calls_the_gateway_shows_rollouts_with_credit(
    launch, service, baseline, live_server, settings
):
    settings.STUDIO_PUBLIC_URL = live_server.url
    service.rolls_out = True
    baseline.agent_version.tools = [CALC]
    baseline.agent_version.save()
    job = look(launch(), service, until="succeeded")
    told = next(iter(service.told.values()))["method"]["reinforcement"]
    assert told["grader"]["type"] == "endpoint"
    assert told["tools"][0]["server_url"].startswith(live_server.url)
    assert told["max_episode_steps"] == 4
    rollouts = Rollout.objects.filter(batch__source=job.public_id)
    assert rollouts.count() == 2 * 12 * 2
    one = rollouts.order_by("id").first()
    assert one.n_tool_calls == 1
    assert set(rollouts.values_list("reward", flat=True)) == {0.0, 1.0}
    assert not Gateway.objects.filter(closed_at__isnull=True).exists(), "the door is shut behind it"
    batch_credit(batch_id=one.batch_id)
    assert RolloutCredit.objects.filter(rollout__in=rollouts).exists()


def test_hosted_job_refused_says_so_in_plain_words_with_the_next_step(launch, service):
    said = "OpenAI is winding down the fine-tuning platform and your organization is no longer able to create jobs."
    service.refuse = (
        403,
        {"message": said, "type": "invalid_request_error", "param": None, "code": "training_not_available"},
    )
    job = look(launch(), service, until="failed")
    assert job.error["code"] == "training_not_available"
    assert said in job.error["message"]
    assert "our own machine" in job.error["message"]


def test_hosted_job_with_a_wrong_key_fails_with_the_fix(launch, service, baseline):
    baseline.model.api_key_sealed = seal("sk-wrong")
    baseline.model.save()
    job = look(launch(), service, until="failed")
    assert job.error["code"] == "invalid_api_key"
    assert "sk-wrong" not in str(job.error)


def test_hosted_job_at_work_is_not_asked_about_at_every_look(launch, service, member, monkeypatch):
    job = look(launch(), service, until="running")
    monkeypatch.setattr(supervision, "HOSTED_LOOK_SECONDS", 3600.0)
    asked = len(service.requests)
    jobs_sync()
    assert len(service.requests) == asked
    job_cancel(actor=member, job=job)
    jobs_sync()
    job.refresh_from_db()
    assert job.status == "cancelled", "a wish waits for nothing"


def test_hosted_job_outlives_an_outage_of_its_provider(launch, service):
    job = look(launch(), service, until="running")
    service.is_down = True
    for _ in range(2):
        jobs_sync()
    job.refresh_from_db()
    assert (job.status, job.process.get("faults")) == ("running", None)
    service.is_down = False
    look(job, service, until="succeeded")


def test_hosted_job_asked_for_while_the_provider_is_down_starts_once_later(launch, service):
    service.is_down = True
    job = launch()
    jobs_sync()
    job.refresh_from_db()
    assert job.status == "queued"
    service.is_down = False
    look(job, service, until="succeeded")
    assert len(service.jobs) == 1


def test_hosted_job_found_again_when_the_worker_died_before_noting_it(launch, service):
    job = look(launch(), service, until="running")
    Job.objects.filter(pk=job.pk).update(status="queued", external_id="")
    look(job, service, until="succeeded")
    assert len(service.jobs) == 1


def test_hosted_job_pause_resume_and_cancel(launch, service, member):
    job = look(launch(), service, until="running")
    service.advance()
    job = job_pause(actor=member, job=job)
    job = look(job, service, until="paused", turns=3)
    job = job_resume(actor=member, job=job)
    job = look(job, service, until="running")
    job_cancel(actor=member, job=job)
    assert look(job, service, until="cancelled", turns=3).status == "cancelled"
    assert next(iter(service.jobs.values()))["status"] == "cancelled"


def test_tools_that_run_inside_need_a_public_address(launch, service, baseline):
    baseline.agent_version.tools = [CALC]
    baseline.agent_version.save()
    job = look(launch(), service, until="failed")
    assert job.error["code"] == "tools_not_reachable"
    assert "STUDIO_PUBLIC_URL" in job.error["message"]


def test_a_model_without_weights_can_be_trained_by_its_provider_only(member, baseline):
    from jobs.services import NotReady

    with pytest.raises(NotReady, match="only answers"):
        job_launch(actor=member, baseline=baseline, plan={}, backend="trl")
