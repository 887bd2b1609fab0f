"""Published job requests and files, each with what a correct product does with it."""

import json
import math
from pathlib import Path

import openai
import pytest

from jobs.models import Job
from rftstudio.api.job_requests import EFFORTS, OPEN, WIRE
from rftstudio.orders.models import JobOrder, ModelAlias
from tests.api.conftest import EXACT, bring_to_launch, rows_of
from tests.graders.cases import load

pytestmark = pytest.mark.django_db
CASES = Path(__file__).parents[1] / "data/cases"
REQUESTS = {one["id"]: one for one in json.loads((CASES / "requests/job_requests_with_expectations.json").read_text())}
OFFICIAL = {one["schema"]: one["text"] for one in load("official_examples.json")}


@pytest.fixture
def gpt5(db):
    return ModelAlias.objects.create(name="gpt-5-2025-08-07", target="tiny/base", baseline_items=4)


def named(request: dict, upload, **rows) -> dict:
    """The request with files that exist."""
    return {
        **request,
        "training_file": upload(rows.get("train") or rows_of(12)),
        "validation_file": upload(rows.get("valid") or rows_of(10, "v"), "valid.jsonl"),
    }


def real(name: str) -> bytes:
    return (CASES / "real/azure-rft" / name).read_bytes()


def job_with(grader: dict) -> dict:
    return {"model": "gpt-5-2025-08-07", "method": {"type": "reinforcement", "reinforcement": {"grader": grader}}}


def test_agentic_request_is_accepted_with_two_warnings_and_hidden_headers(ai, upload, gpt5):
    request = named(REQUESTS["azure-agentic-readme"]["request"], upload)
    made = ai.fine_tuning.jobs.create(**request)
    warnings = [event.message for event in ai.fine_tuning.jobs.list_events(made.id) if event.level == "warn"]
    assert len(warnings) == 2
    assert all("placeholder" in words for words in warnings)
    shown = ai.fine_tuning.jobs.with_raw_response.retrieve(made.id).text
    assert "**********" in shown
    assert "Bearer" not in shown
    assert "Add bearer" not in shown + json.dumps(list(JobOrder.objects.values()), default=str)


def test_placeholder_addresses_are_refused_and_every_tool_is_named(ai, upload, gpt5):
    tools = json.loads((CASES / "requests/zava_tools_config_placeholders.json").read_text())
    request = named(job_with(EXACT), upload)
    request["method"]["reinforcement"]["tools"] = tools
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.fine_tuning.jobs.create(**request)
    message = refusal.value.body["message"]
    assert len(tools) == 17
    assert [tool["name"] for tool in tools if tool["name"] not in message] == []


def test_official_reinforcement_request_is_accepted(ai, upload):
    ModelAlias.objects.create(name="o4-mini", target="tiny/base")
    request = named(json.loads(OFFICIAL["create job (reinforcement) request"]), upload)
    made = json.loads(ai.fine_tuning.jobs.with_raw_response.create(**request).text)
    official = json.loads(OFFICIAL["create job (reinforcement) response"])
    assert set(official) <= set(made), "every key of the official answer is there"
    assert (made["status"], made["method"]) == (official["status"], official["method"])


def test_misspelt_operation_is_refused_with_the_right_one(ai):
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.fine_tuning.alpha.graders.validate(**REQUESTS["neq-spelling"]["request"])
    assert "Write ne." in refusal.value.body["message"]


def test_agent_request_of_the_build_hour_is_accepted_with_its_tools(ai, upload, gpt5):
    request = json.loads((CASES / "requests/finqa_agent_job_request.json").read_text())
    offered = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
               for name in ("search", "list", "cat")]  # fmt: skip
    rows = rows_of(12, tools=offered, reference_answer="1")
    made = ai.fine_tuning.jobs.create(
        **named(request, upload, train=rows, valid=rows_of(10, "v", tools=offered, reference_answer="2"))
    )
    order = JobOrder.objects.get(public_id=made.id)
    bring_to_launch(made.id)
    order.refresh_from_db()
    assert order.error is None or order.error["code"] != "invalid_tools"
    assert order.agent_version.limits["max_steps"] == 50
    assert [tool["name"] for tool in order.agent_version.tools] == ["search", "list", "cat"]


def test_field_of_validation_rows_alone_is_refused(ai, upload, gpt5):
    grader = {**EXACT, "reference": "{{item.reference_tool_args}}"}
    files = {"train": real("toolcall_train_10.jsonl"), "valid": real("toolcall_valid_10.jsonl")}
    made = ai.fine_tuning.jobs.create(**named(job_with(grader), upload, **files))
    bring_to_launch(made.id)
    error = ai.fine_tuning.jobs.retrieve(made.id).error
    assert error.code == "invalid_grader"
    assert "reference_tool_args" in error.message
    assert "10 of 10" in error.message


def test_rows_without_the_reference_are_refused_with_their_count(ai, upload, gpt5):
    grader = load("medmcq_stringcheck_grader.json")
    made = ai.fine_tuning.jobs.create(**named(job_with(grader), upload, train=real("medmcq_validation_40.jsonl")))
    bring_to_launch(made.id)
    error = ai.fine_tuning.jobs.retrieve(made.id).error
    assert "missing in 40 of 40 rows" in error.message


@pytest.mark.parametrize("name", ["countdown_eval_100.jsonl", "countdown_train_raw_245.jsonl"])
def test_rows_without_messages_fail_in_one_sentence(ai, upload, gpt5, name):
    made = ai.fine_tuning.jobs.create(**named(job_with(EXACT), upload, train=real(name)))
    bring_to_launch(made.id)
    error = ai.fine_tuning.jobs.retrieve(made.id).error
    assert (error.code, error.param) == ("invalid_training_file", "training_file")
    count = name.rpartition("_")[2].partition(".")[0]
    assert f"in {count} of {count} rows" in error.message


def test_published_training_rows_are_taken_as_they_are(ai, upload, gpt5):
    grader = {**EXACT, "reference": "{{item.target}}"}
    rows = real("countdown_train_25.jsonl")
    made = ai.fine_tuning.jobs.create(
        **named(job_with(grader), upload, train=rows, valid=b"\n".join(rows.splitlines()[:12]))
    )
    found = bring_to_launch(made.id)
    error = None if isinstance(found, Job) else found.error
    assert error["code"] == "not_ready", "the same rows on both sides are a leak"
    assert "more than one split" in error["message"] or "leak" in error["message"].lower()


def test_hyperparameters_and_their_limits_are_those_of_the_specification():
    official = load("enums.json")["hyperparameters"]
    assert set(official) == {*WIRE, "reasoning_effort"}
    assert tuple(official["reasoning_effort"]["enum"]) == EFFORTS
    for name, (kind, low, high) in WIRE.items():
        auto, number = official[name]["oneOf"]
        assert (auto["enum"], official[name]["default"]) == (["auto"], "auto")
        assert {"integer": int, "number": float}[number["type"]] is kind
        assert (number["minimum"], number.get("maximum", math.inf)) == (low, high), name
        assert number.get("exclusiveMinimum", False) == (name in OPEN)
