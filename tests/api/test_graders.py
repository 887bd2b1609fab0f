"""Alpha graders and tools through the unmodified SDK."""

import json

import openai
import pytest
from openai.types.fine_tuning.alpha import GraderRunResponse

from jobs.agents.models import ModelEndpoint
from rftstudio.usage.models import LedgerLine
from tests.api.conftest import EXACT
from tests.fakes.server import ModelServer, Reply, ToolServer
from tests.graders.cases import load

pytestmark = pytest.mark.django_db
#: The reference's own worked example and its answer.
NEAR = {"type": "text_similarity", "name": "near", "input": "{{ sample.output_text }}",
        "reference": "{{ item.reference_answer }}", "evaluation_metric": "fuzzy_match"}  # fmt: skip
AMOUNT = {"type": "string_check", "name": "amount", "input": "{{ sample.output_text }}",
          "reference": "{{ item.reference_answer }}", "operation": "eq"}  # fmt: skip
MULTI = {"type": "multi", "name": "answer_and_source", "graders": {"amount": AMOUNT, "near": NEAR},
         "calculate_output": "min(1, 0.8 * amount + 0.2 * near)"}  # fmt: skip
EXAMPLES = {one["schema"]: one for one in load("official_examples.json")}


def test_run_answers_the_references_worked_example(ai):
    answer = ai.fine_tuning.alpha.graders.run(grader=MULTI, item={"reference_answer": "145"}, model_sample="145.0")
    GraderRunResponse.model_validate_json(answer.model_dump_json(by_alias=True))
    assert (answer.reward, answer.sub_rewards) == (pytest.approx(0.15), {"amount": 0.0, "near": 0.75})
    assert (answer.metadata.name, answer.metadata.type) == ("answer_and_source", "multi")
    errors = answer.metadata.errors.model_dump(by_alias=True)
    assert len(errors) == 14
    assert not any(errors.values())


def test_run_that_fails_is_200_with_a_flag(ai):
    answer = ai.fine_tuning.alpha.graders.run(grader=EXACT, item={}, model_sample="x")
    assert (answer.reward, answer.metadata.errors.invalid_variable_error) == (0.0, True)
    source = "def grade(sample, item):\n    return 1 / 0\n"
    answer = ai.fine_tuning.alpha.graders.run(grader={"type": "python", "source": source}, model_sample="x")
    assert answer.metadata.errors.python_grader_runtime_error
    assert "ZeroDivisionError" in answer.metadata.errors.python_grader_runtime_error_details


def test_run_reads_json_answers_as_output_json(ai):
    grader = {**EXACT, "input": "{{sample.output_json.a}}"}
    assert ai.fine_tuning.alpha.graders.run(grader=grader, item={"label": "7"}, model_sample='{"a": 7}').reward == 1.0


def test_run_of_a_judge_calls_the_teams_model_and_books_it(ai, reader, team, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    grader = json.loads(EXAMPLES["run grader request: Score text alignment"]["text"])
    with ModelServer(lambda messages, tools: {"content": '{"result": 0.5, "steps": []}'}) as server:
        ModelEndpoint.objects.create(
            team=team, name="gpt-5-mini", kind="openai", model="m", base_url=server.url + "/v1"
        )
        answer = ai.fine_tuning.alpha.graders.run(**grader)
        with pytest.raises(openai.PermissionDeniedError):
            reader.fine_tuning.alpha.graders.run(**grader)
    assert answer.reward == 0.5
    assert answer.api_model_grader_token_usage_per_model
    assert LedgerLine.objects.filter(team=team, batch_source="grader-test").count() == 2


def test_validate_answers_with_the_grader(ai, reader):
    assert reader.fine_tuning.alpha.graders.validate(grader=EXACT).grader.to_dict() == EXACT
    hidden = {"type": "endpoint", "url": "https://x.example/s", "headers": {"A": "secret"}}
    assert ai.fine_tuning.alpha.graders.validate(grader=hidden).grader.to_dict()["headers"] == {"A": "**********"}


@pytest.mark.parametrize("name", [name for name, one in EXAMPLES.items() if name.startswith("Grader")])
def test_official_graders_are_accepted_or_refused_with_every_reason(client, secret, name):
    """Three of them are no JSON, and the multi grader is unusable for three reasons."""
    example = EXAMPLES[name]
    headers = {"Authorization": f"Bearer {secret}"}
    body = f'{{"grader": {example["text"]}}}'
    answer = client.post("/v1/fine_tuning/alpha/graders/validate", body, "application/json", headers=headers)
    if not example["valid_json"]:
        assert answer.status_code == 400
        assert "line" in answer.json()["error"]["message"]
    elif name == "GraderMulti":
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "invalid_grader")
        assert len(error["message"].splitlines()) >= 3
        for words in ("must be a map", "text_similarity_score", "string_check_score"):
            assert words in error["message"], error["message"]
    else:
        assert answer.status_code == 200, answer.json()


def test_official_judge_requests_are_accepted(ai):
    """Without the judge they name, the sample stays ungraded, with the flag that says so."""
    for name, example in EXAMPLES.items():
        if name.startswith("run grader request"):
            answer = ai.fine_tuning.alpha.graders.run(**json.loads(example["text"]))
            assert answer.metadata.errors.api_model_grader_server_error, name


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "grader"),
        ({"grader": EXACT, "model_sample": 3}, "model_sample"),
        ({"grader": EXACT, "model_sample": "x", "item": []}, "item"),
        ({"grader": EXACT, "model_sample": "x", "reward": 1}, "reward"),
        ({"grader": {**EXACT, "operation": "neq"}, "model_sample": "x"}, "grader.operation"),
        (
            {"grader": {"type": "multi", "graders": EXACT, "calculate_output": "a"}, "model_sample": "x"},
            "grader.graders",
        ),
    ],
)
def test_bad_run_is_refused_with_its_parameter(ai, body, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.post("/fine_tuning/alpha/graders/run", body=body, cast_to=object)
    assert refusal.value.body["param"] == param


CALL = {"type": "function_call", "id": "fc_01", "call_id": "call_01", "name": "look_up", "arguments": '{"city":"Lisbon"}',
        "trace_id": "trace_1", "item": {"a": 1}}  # fmt: skip


def test_tool_run_sends_the_call_and_returns_the_output(ai, reader, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    with ToolServer(lambda call: f"cap for {call['arguments']}") as server:
        body = {**CALL, "server_url": server.url + "/t", "headers": {"X-Key": "k"}}
        answer = ai.post("/fine_tuning/alpha/tool/run", body=body, cast_to=object)
        with pytest.raises(openai.PermissionDeniedError):
            reader.post("/fine_tuning/alpha/tool/run", body=body, cast_to=object)
        assert len(server.calls) == 1
        got = {key: server.calls[0][key] for key in ("name", "arguments", "call_id", "trace_id", "item")}
        assert got == {key: CALL[key] for key in got}
        assert server.requests[0].headers["x-key"] == "k"
        server.script = [Reply.of({"detail": "no such city"}, 404), Reply.of({}, 500), Reply.of({}, 500)]
        shown = ai.post("/fine_tuning/alpha/tool/run", body=body, cast_to=object)
        with pytest.raises(openai.BadRequestError) as refusal:
            ai.post("/fine_tuning/alpha/tool/run", body=body, cast_to=object)
    assert answer == {
        "type": "function_call_output",
        "id": "fc_01",
        "call_id": "call_01",
        "output": 'cap for {"city":"Lisbon"}',
    }
    assert shown["output"].startswith("Error 404")
    assert refusal.value.body["code"] == "tool_failed"


def test_tool_run_does_not_call_inside(ai):
    with pytest.raises(openai.BadRequestError, match="inside this network"):
        ai.post("/fine_tuning/alpha/tool/run", body={**CALL, "server_url": "http://169.254.169.254/x"}, cast_to=object)
