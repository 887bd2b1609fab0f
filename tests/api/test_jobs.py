"""`/v1/fine_tuning/jobs` through the unmodified SDK, from the order to the tuned model. The trainer is a fake one."""

import json
import logging
import random

import openai
import pytest
from openai.types.fine_tuning import FineTuningJob, FineTuningJobEvent
from openai.types.fine_tuning.jobs import FineTuningJobCheckpoint

from datasets.models import DatasetVersion, Item, SourceFile
from graders.models import GraderVersion
from jobs.agents.models import AgentVersion, Tool
from jobs.agents.selectors import tool_spec, toolspecs
from jobs.evaluations.models import Evaluation
from jobs.models import Job
from rftstudio.notify.finding import events_find
from rftstudio.orders import services as orders
from rftstudio.orders.models import JobOrder, ModelAlias
from rftstudio.teams.models import ApiKey, AuditEvent
from tests.api.conftest import EXACT, bring_to_launch, jsonl, rows_of
from tests.factories.studio import ready_baseline_of
from tests.factories.usage import QuotaFactory
from tests.jobs.conftest import look_until

pytestmark = pytest.mark.django_db
SHORT = 40.0


def reinforcement(asked: dict) -> dict:
    return asked["method"]["reinforcement"]


def told(job) -> list[str]:
    return [event.message for event in job]


def test_job_walks_from_files_to_tuned_model(ai, asked, trainer):  # noqa: F811
    made = ai.fine_tuning.jobs.create(**asked)
    FineTuningJob.model_validate(made.model_dump())
    assert (made.status, made.model, made.seed, made.metadata) == (
        "validating_files",
        "o4-mini",
        42,
        {"team": "finance"},
    )
    assert made.studio["base_model"] == "base"
    assert made.method.reinforcement.hyperparameters.compute_multiplier == "auto"

    job = bring_to_launch(made.id)
    assert isinstance(job, Job)
    assert (job.public_id, job.plan["batch_size"], job.plan["max_eval_items"], job.seed) == (made.id, 4, 10, 42)
    assert set(Item.objects.values_list("split", flat=True)) == {"train", "validation"}
    look_until(job, seconds=SHORT)
    orders.orders_advance()

    done = ai.fine_tuning.jobs.retrieve(made.id)
    FineTuningJob.model_validate(done.model_dump())
    assert (done.status, done.created_at, done.hyperparameters.to_dict()) == ("succeeded", made.created_at, {})
    assert done.fine_tuned_model == f"ft:o4-mini:duty-desk:expenses:{made.id.removeprefix('ftjob-')}"
    assert done.method.reinforcement.hyperparameters.batch_size == 4
    assert done.usage_metrics["training_time_seconds"] > 0

    events = list(ai.fine_tuning.jobs.list_events(made.id, limit=3))
    assert len({event.id for event in events}) == len(events)
    assert events[-1].message == f"Created fine-tuning job: {made.id}"
    assert events[-2].message.startswith("Validating training file")
    assert events[0].message.startswith("Finished after 3")
    for event in events:
        FineTuningJobEvent.model_validate(event.model_dump())
    metrics = [event for event in events if event.type == "metrics"]
    assert [event.data["train_mean_reward"] is not None for event in metrics] == [True] * 3
    assert metrics[0].message.startswith("Step 3/3")

    checkpoints = list(ai.fine_tuning.jobs.checkpoints.list(made.id, limit=2))
    assert [one.step_number for one in checkpoints] == [3, 2, 1]
    for one in checkpoints:
        FineTuningJobCheckpoint.model_validate(one.model_dump())
        assert one.metrics.full_valid_mean_reward > 0
        assert one.fine_tuned_model_checkpoint.endswith(f":ckpt-step-{one.step_number}")

    lines = ai.files.content(done.result_files[0]).text.splitlines()
    assert lines[0].startswith("step,train_mean_reward,full_valid_mean_reward")
    assert len(lines) == 4
    names = [model.id for model in ai.models.list()]
    assert {done.fine_tuned_model, checkpoints[0].fine_tuned_model_checkpoint} <= set(names)


def test_running_job_pauses_resumes_and_is_cancelled(ai, asked, trainer):  # noqa: F811
    trainer(hold_at=[2, 4])
    reinforcement(asked)["hyperparameters"]["n_epochs"] = 20
    made = ai.fine_tuning.jobs.create(**asked)
    with pytest.raises(openai.BadRequestError, match="validating_files"):
        ai.fine_tuning.jobs.pause(made.id)
    job = bring_to_launch(made.id)
    look_until(job, until=lambda one: one.done_steps >= 1)

    assert ai.fine_tuning.jobs.pause(made.id).status in ("running", "paused")
    look_until(job, status="paused")
    assert ai.fine_tuning.jobs.retrieve(made.id).status == "paused"
    assert ai.fine_tuning.jobs.resume(made.id).status == "queued"
    look_until(job, status="running")
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.fine_tuning.jobs.resume(made.id)
    assert refusal.value.body["code"] == "invalid_state"
    assert ai.fine_tuning.jobs.cancel(made.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError, match="ended already"):
        ai.fine_tuning.jobs.cancel(made.id)


def test_order_is_cancelled_with_its_baseline(ai, asked):
    made = ai.fine_tuning.jobs.create(**asked)
    orders.order_advance(order_id=JobOrder.objects.get().pk)
    assert ai.fine_tuning.jobs.cancel(made.id).status == "cancelled"
    assert Evaluation.objects.get().status == "cancelled"
    assert not orders.order_advance(order_id=JobOrder.objects.get().pk)
    assert "Cancelled by key script." in told(ai.fine_tuning.jobs.list_events(made.id))


def test_same_request_again_finds_the_same_versions(ai, asked, trainer):  # noqa: F811
    first = bring_to_launch(ai.fine_tuning.jobs.create(**asked).id)
    second = bring_to_launch(ai.fine_tuning.jobs.create(**asked).id)
    assert first.pk != second.pk
    assert first.baseline == second.baseline
    for rows in (DatasetVersion, GraderVersion, AgentVersion, Evaluation):
        assert rows.objects.count() == 1, rows


def test_idempotency_key_finds_the_first_job_and_no_other_request(ai, asked):
    headers = {"Idempotency-Key": "nightly-7"}
    first = ai.fine_tuning.jobs.create(**asked, extra_headers=headers)
    assert ai.fine_tuning.jobs.create(**asked, extra_headers=headers).id == first.id
    with pytest.raises(openai.BadRequestError, match="another request"):
        ai.fine_tuning.jobs.create(**{**asked, "seed": 1}, extra_headers=headers)
    assert JobOrder.objects.count() == 1


def test_jobs_are_found_by_metadata_and_paged(ai, asked, member):
    page = Job.objects.create(
        team=member.team, number=1, baseline=(base := ready_baseline_of(member)), base_model=base.model
    )
    ids = []
    for n in range(5):
        metadata = {"n": str(n), "0": "zero"} if n else None
        ids.append(ai.fine_tuning.jobs.create(**{**asked, "metadata": metadata}).id)
    newest = [*ids[::-1], page.public_id]
    assert [job.id for job in ai.fine_tuning.jobs.list(limit=2)] == newest
    assert [job.id for job in ai.fine_tuning.jobs.list(metadata={"n": "3", "0": "zero"})] == [ids[3]]
    assert [job.id for job in ai.fine_tuning.jobs.list(extra_query={"metadata": "null"})] == [ids[0], page.public_id]
    assert ai.fine_tuning.jobs.list(metadata={"n": "9"}).data == []
    FineTuningJob.model_validate(ai.fine_tuning.jobs.retrieve(page.public_id).model_dump())
    with pytest.raises(openai.NotFoundError):
        ai.fine_tuning.jobs.list(after="ftjob-none")


def test_list_asks_as_many_queries_for_twenty_as_for_ten(ai, member, django_assert_max_num_queries):
    base = ready_baseline_of(member)
    for n in range(20):
        Job.objects.create(team=member.team, number=n + 1, baseline=base, base_model=base.model)
    with django_assert_max_num_queries(6):  # key, its last use, its requests of this minute, jobs, orders, their usage
        assert len(ai.fine_tuning.jobs.list(limit=20).data) == 20


def test_job_that_fails_before_it_starts_is_told_to_webhooks(ai, asked, upload, settings):
    settings.EMAIL_HOST = "mail.example.com"  # somebody listens
    made = ai.fine_tuning.jobs.create(**{**asked, "training_file": upload(rows_of(3))})
    bring_to_launch(made.id)
    assert [(event.type, event.object_id) for event in events_find()] == [("fine_tuning.job.failed", made.id)]
    assert events_find() == []


# -- what fails later, in the job -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        (rows_of(3), "invalid_n_examples", "Training file has 3 example(s), but must have at least 10 examples"),
        (jsonl(rows_of(12)) + b"{broken\n", "invalid_training_file", "Line 13, column"),
        ([{"item": {"label": "1"}}] * 12, "invalid_training_file", "messages"),
        (b"version https://git-lfs.github.com/spec/v1\n", "invalid_training_file", "Git LFS pointer"),
    ],
)
def test_bad_training_file_fails_the_job_as_the_reference_does(ai, asked, upload, rows, code, words):
    made = ai.fine_tuning.jobs.create(**{**asked, "training_file": upload(rows)})
    assert made.status == "validating_files"
    bring_to_launch(made.id)
    failed = ai.fine_tuning.jobs.retrieve(made.id)
    assert (failed.status, failed.error.code, failed.error.param) == ("failed", code, "training_file")
    assert words in failed.error.message
    assert failed.finished_at
    assert ai.fine_tuning.jobs.list_events(made.id).data[0].level == "error"


def test_ids_that_repeat_are_the_rows_own_business(ai, asked, upload):
    asked |= {
        "training_file": upload(rows_of(12, id="7", split="test")),
        "validation_file": upload(rows_of(10, "v", id="7")),
    }
    bring_to_launch(ai.fine_tuning.jobs.create(**asked).id)
    splits = list(Item.objects.order_by("position").values_list("split", flat=True))
    assert splits == ["train"] * 12 + ["validation"] * 10


def test_field_that_only_validation_rows_have_is_refused_with_counts(ai, asked, upload):
    asked["validation_file"] = upload(rows_of(10, "v", hint="x"))
    reinforcement(asked)["grader"] = {**EXACT, "reference": "{{item.hint}}"}
    made = ai.fine_tuning.jobs.create(**asked)
    bring_to_launch(made.id)
    error = ai.fine_tuning.jobs.retrieve(made.id).error
    assert (error.code, error.param) == ("invalid_grader", "method.reinforcement.grader.reference")
    assert "missing in 12 of 12 rows" in error.message


def test_baseline_that_is_not_ready_fails_the_job_unless_the_console_says_otherwise(ai, asked, alias, trainer):  # noqa: F811
    made = ai.fine_tuning.jobs.create(**asked)
    bring_to_launch(made.id, rewards=(0.0,))
    failed = ai.fine_tuning.jobs.retrieve(made.id)
    assert (failed.status, failed.error.code) == ("failed", "not_ready")
    assert "owner may launch" in failed.error.message
    ModelAlias.objects.update(is_readiness_binding=False)
    again = ai.fine_tuning.jobs.create(**asked)
    assert isinstance(bring_to_launch(again.id), Job)
    assert any("overruled the readiness check" in words for words in told(ai.fine_tuning.jobs.list_events(again.id)))
    assert AuditEvent.objects.filter(verb="job.readiness_overruled", object_id=again.id).exists()


def test_quota_holds_at_this_door_too(ai, asked, team, trainer):  # noqa: F811
    QuotaFactory(team=team, rollouts_day=5)
    made = ai.fine_tuning.jobs.create(**asked)
    bring_to_launch(made.id)
    assert ai.fine_tuning.jobs.retrieve(made.id).error.code == "exceeded_quota"


def test_revoked_key_launches_nothing_more(ai, asked, owner):
    from rftstudio.teams.services import api_key_revoke

    made = ai.fine_tuning.jobs.create(**asked)
    api_key_revoke(actor=owner, key=ApiKey.objects.get(name="script"))
    order = bring_to_launch(made.id)
    assert (order.stage, order.error["code"]) == ("failed", "permission_denied")


def test_fault_of_ours_is_tried_again_and_then_told(ai, asked, monkeypatch):
    made = ai.fine_tuning.jobs.create(**asked)
    monkeypatch.setattr("rftstudio.orders.rows.version_ready", lambda **_: 1 / 0)
    for _ in range(orders.MOST_FAULTS):
        bring_to_launch(made.id)
    failed = ai.fine_tuning.jobs.retrieve(made.id)
    assert (failed.status, failed.error.code) == ("failed", "studio_error")


# -- tools ------------------------------------------------------------------------------------------------------------

SCHEMA = {"name": "look_up", "description": "Find a clause by city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "The city."}}, "required": ["city"]}}  # fmt: skip


def with_tools(asked: dict, upload, **method) -> dict:
    offered = [{"type": "function", "function": SCHEMA}]
    asked |= {
        "training_file": upload(rows_of(12, tools=offered)),
        "validation_file": upload(rows_of(10, "v", tools=offered)),
    }
    tool = {
        "name": "look_up",
        "server_url": "https://tools.example.com/look_up",
        "headers": {"X-Key": "very-secret-tool-key"},
    }
    reinforcement(asked).update({"tools": [tool], "max_episode_steps": 7, **method})
    return asked


def test_tools_take_address_from_the_job_and_schema_from_the_rows(ai, asked, upload, trainer):  # noqa: F811
    made = ai.fine_tuning.jobs.create(**with_tools(asked, upload))
    assert made.method.reinforcement.tools[0]["headers"] == {"X-Key": "**********"}
    job = bring_to_launch(made.id)
    agent = job.baseline.agent_version
    assert agent.limits["max_steps"] == 7
    assert agent.tools[0]["parameters"] == SCHEMA["parameters"]
    assert agent.tools[0]["config"] == {"server_url": "https://tools.example.com/look_up"}
    assert Tool.objects.get().headers_sealed
    asked["method"]["reinforcement"]["tools"][0]["server_url"] = "https://tools.example.com/v2"
    other = bring_to_launch(ai.fine_tuning.jobs.create(**asked).id)
    assert other.baseline.agent_version.agent == agent.agent
    assert other.baseline.agent_version.number == 2


def test_headers_of_a_later_job_do_not_reach_an_earlier_one_nor_a_persons_tool(ai, asked, upload, trainer):  # noqa: F811
    first = bring_to_launch(ai.fine_tuning.jobs.create(**with_tools(asked, upload)).id).baseline.agent_version
    asked["method"]["reinforcement"]["tools"][0]["headers"] = {"X-Key": "another key"}
    second = bring_to_launch(ai.fine_tuning.jobs.create(**asked).id).baseline.agent_version
    assert toolspecs(first)[0].headers == {"X-Key": "very-secret-tool-key"}
    assert toolspecs(second)[0].headers == {"X-Key": "another key"}
    assert tool_spec(Tool.objects.get()).headers == {"X-Key": "very-secret-tool-key"}
    again = bring_to_launch(ai.fine_tuning.jobs.create(**{**asked, "seed": 9}).id).baseline.agent_version
    assert again == second, "the same request finds the same version"


def test_tool_without_a_schema_in_the_rows_fails_the_job(ai, asked, upload):
    made = ai.fine_tuning.jobs.create(**with_tools(asked, upload) | {"training_file": upload(rows_of(12)),
                                                                    "validation_file": upload(rows_of(10, "w"))})  # fmt: skip
    bring_to_launch(made.id)
    error = ai.fine_tuning.jobs.retrieve(made.id).error
    assert (error.code, error.param) == ("invalid_tools", "method.reinforcement.tools")
    assert "look_up" in error.message


# -- what is refused at once ------------------------------------------------------------------------------------------


def put(path: str, value):
    """A change of the request at a dotted path."""

    def change(asked: dict) -> None:
        *way, last = path.split(".")
        for name in way:
            asked = asked[name]
        asked[last] = value

    return change


R = "method.reinforcement"
TOOL = {"name": "a", "server_url": "https://example.com/a"}
BAD = [
    (put("model", "gpt-9"), "model", "Known: o4-mini"),
    (put("training_file", "file-none"), "training_file", "No such File"),
    (put("colour", "red"), "colour", "Unknown parameter"),
    (put("suffix", "x" * 65), "suffix", "64"),
    (put("seed", -1), "seed", "whole number"),
    (put("metadata", {str(n): "x" for n in range(17)}), "metadata", "16"),
    (put("metadata", {"a": 1}), "metadata.a", "text"),
    (put("integrations", [{"type": "wandb", "wandb": {}}]), "integrations[0].wandb.project", "Missing"),
    (put("method", {"type": "sft", "sft": {}}), "method.type", "reinforcement or supervised"),
    (put("method", {"type": "dpo", "dpo": {}}), "method.type", "DPO"),
    (put("hyperparameters", {"n_epochs": 1}), "hyperparameters", "top-level"),
    (put(f"{R}.grader", None), f"{R}.grader", "Missing"),
    (put(f"{R}.grader", {**EXACT, "operation": "neq"}), f"{R}.grader.operation", "Write ne."),
    (put(f"{R}.rollout_id", 1), f"{R}.rollout_id", "Unknown parameter"),
    (put(f"{R}.max_episode_steps", 0), f"{R}.max_episode_steps", "1 to 1000"),
    (put(f"{R}.response_format", {"type": "json_schema"}), f"{R}.response_format.json_schema.schema", "Missing"),
    (put(f"{R}.hyperparameters", {"n_epochs": 51}), f"{R}.hyperparameters.n_epochs", "at most 50"),
    (put(f"{R}.hyperparameters", {"n_epochs": "3"}), f"{R}.hyperparameters.n_epochs", "whole number"),
    (put(f"{R}.hyperparameters", {"batch_size": 1.5}), f"{R}.hyperparameters.batch_size", "whole number"),
    (put(f"{R}.hyperparameters", {"learning_rate_multiplier": 0}), f"{R}.hyperparameters.learning_rate_multiplier", "above 0"),
    (put(f"{R}.hyperparameters", {"compute_multiplier": 11}), f"{R}.hyperparameters.compute_multiplier", "at most 10"),
    (put(f"{R}.hyperparameters", {"reasoning_effort": "max"}), f"{R}.hyperparameters.reasoning_effort", "medium"),
    (put(f"{R}.hyperparameters", {"eval_interval": True}), f"{R}.hyperparameters.eval_interval", "whole number"),
    (put(f"{R}.hyperparameters", {"etest_samples": 1}), f"{R}.hyperparameters.etest_samples", "Unknown"),
    (put(f"{R}.hyperparameters", {"lora_r": 0}), f"{R}.hyperparameters.lora_r", "1"),
    (put(f"{R}.tools", [{"name": "a", "url": "https://x.example"}]), f"{R}.tools[0].url", "server_url"),
    (put(f"{R}.tools", [TOOL, TOOL]), f"{R}.tools", "Two tools"),
    (put(f"{R}.tools", [{**TOOL, "server_url": "http://127.0.0.1/a"}]), f"{R}.tools[0].server_url", "inside this network"),
    (put(f"{R}.tools", [{**TOOL, "headers": {"A": "***"}}]), f"{R}.tools[0].headers.A", "real value"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "param", "words"), BAD, ids=[param for _, param, _ in BAD])
def test_bad_request_is_refused_with_its_parameter(ai, asked, change, param, words):
    change(asked)
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.post("/fine_tuning/jobs", body=asked, cast_to=object)
    error = refusal.value.response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert words in error["message"]
    assert not JobOrder.objects.exists()


def test_any_body_is_answered_with_the_envelope(client, secret, asked):
    """Random damage to a good request: never a 500."""
    chance = random.Random(7)
    junk = [None, True, -1, 1e308, "", "x" * 5000, [], {}, [[]], {"a": {"b": []}}, "\ud800", "\x00", ["\x00"]]

    def damage(value):
        if isinstance(value, dict) and value and chance.random() < 0.8:
            key = chance.choice(sorted(value))
            return {**value, key: damage(value[key])}
        return chance.choice(junk)

    bodies = [json.dumps(damage(asked)) for _ in range(120)]
    for body in [*bodies, "[" * 100_000, '{"model": NaN}', "nothing", '"text"', ""]:
        answer = client.post(
            "/v1/fine_tuning/jobs", body, "application/json", headers={"Authorization": f"Bearer {secret}"}
        )
        assert answer.status_code in (200, 400), body[:500]
        if answer.status_code == 400:
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


# -- rights and secrets -----------------------------------------------------------------------------------------------


def test_key_of_another_team_sees_nothing(ai, foreign, asked, trainer):  # noqa: F811
    waiting = ai.fine_tuning.jobs.create(**asked).id
    launched = bring_to_launch(ai.fine_tuning.jobs.create(**asked).id).public_id
    assert foreign.fine_tuning.jobs.list().data == []
    jobs = foreign.fine_tuning.jobs
    for public_id in (waiting, launched):
        for call in (jobs.retrieve, jobs.cancel, jobs.pause, jobs.resume, jobs.list_events, jobs.checkpoints.list):
            with pytest.raises(openai.NotFoundError):
                call(public_id)
    with pytest.raises(openai.BadRequestError) as refusal:
        jobs.create(**asked)
    assert refusal.value.body["param"] == "training_file"
    assert ai.fine_tuning.jobs.retrieve(launched).status != "cancelled"


def test_reading_key_reads_and_writes_nothing(ai, reader, asked, trainer):  # noqa: F811
    job = bring_to_launch(ai.fine_tuning.jobs.create(**asked).id)
    before = (
        AuditEvent.objects.count(),
        JobOrder.objects.count(),
        Evaluation.objects.count(),
        SourceFile.objects.count(),
    )
    jobs = reader.fine_tuning.jobs
    assert jobs.retrieve(job.public_id).id == job.public_id
    calls = [
        lambda: jobs.create(**asked),
        *(lambda verb=verb: getattr(jobs, verb)(job.public_id) for verb in ("cancel", "pause", "resume")),
    ]
    for call in calls:
        with pytest.raises(openai.PermissionDeniedError):
            call()
    after = (
        AuditEvent.objects.count(),
        JobOrder.objects.count(),
        Evaluation.objects.count(),
        SourceFile.objects.count(),
    )
    assert after == before


def test_no_secret_is_in_logs_errors_answers_or_rows(ai, secret, asked, upload, caplog, trainer):  # noqa: F811
    caplog.set_level(logging.DEBUG)
    grader = {
        "type": "endpoint",
        "name": "ours",
        "url": "https://grader.example.com/s",
        "headers": {"A": "Bearer very-secret-grader-key"},
    }
    multi = {"type": "multi", "name": "m", "graders": {"a": grader, "b": EXACT}, "calculate_output": "a + b"}
    asked = with_tools(asked, upload, grader=multi)
    made = ai.fine_tuning.jobs.create(**asked)
    bring_to_launch(made.id)
    bad = {
        **asked,
        "method": {"type": "reinforcement", "reinforcement": {**reinforcement(asked), "max_episode_steps": 0}},
    }
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.fine_tuning.jobs.create(**bad)
    shown = [
        caplog.text,
        str(refusal.value),
        ai.fine_tuning.jobs.with_raw_response.retrieve(made.id).text,
        ai.fine_tuning.jobs.with_raw_response.list_events(made.id).text,
        json.dumps(
            [list(rows.objects.values()) for rows in (JobOrder, Job, GraderVersion, AgentVersion, Tool, AuditEvent)],
            default=str,
        ),
    ]
    hidden = ["very-secret-tool-key", "very-secret-grader-key", secret]
    assert [word for text in shown for word in hidden if word in text] == []
    assert json.loads(shown[2])["method"]["reinforcement"]["grader"]["graders"]["a"]["headers"] == {"A": "**********"}


def test_checkpoint_is_lent_to_nobody_and_says_so(ai, reader, foreign, asked, trainer):  # noqa: F811
    made = ai.fine_tuning.jobs.create(**asked)
    look_until(bring_to_launch(made.id), seconds=40)
    name = ai.fine_tuning.jobs.checkpoints.list(made.id).data[0].fine_tuned_model_checkpoint
    loans = ai.fine_tuning.checkpoints.permissions
    assert loans.list(name).data == []
    with pytest.raises(openai.BadRequestError) as refusal:
        list(loans.create(name, project_ids=["proj_1"]))
    assert (refusal.value.body["code"], refusal.value.body["param"]) == ("sharing_not_available", "project_ids")
    with pytest.raises(openai.NotFoundError, match="no permission"):
        loans.delete("cp_1", fine_tuned_model_checkpoint=name)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        foreign.fine_tuning.checkpoints.permissions.list(name)
    with pytest.raises(openai.PermissionDeniedError):
        list(reader.fine_tuning.checkpoints.permissions.create(name, project_ids=["proj_1"]))


def test_what_breaks_on_our_side_is_the_envelope_without_its_insides(client, secret, asked, monkeypatch, caplog):
    def breaks(**values):
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(orders, "order_place", breaks)
    client.raise_request_exception = False
    answer = client.post(
        "/v1/fine_tuning/jobs", asked, "application/json", headers={"Authorization": f"Bearer {secret}"}
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"], error["code"]) == (
        500,
        "server_error",
        None,
        "studio_failed",
    )
    assert answer["X-Request-ID"] in error["message"]
    assert "hunter2" not in answer.content.decode()
    assert any("v1.broken" in str(record.msg) for record in caplog.records)
