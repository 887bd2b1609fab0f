"""`/v1/traces` as OpenTelemetry exporters use it. The protobuf bodies are made by OpenTelemetry's own encoder."""

import gzip
import json
from datetime import timedelta

import pytest
from django.utils import timezone
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

from jobs.rollouts.models import MaskRule, Rollout, TraceSpan
from rftstudio.teams.services import api_key_create

pytestmark = pytest.mark.django_db
PROTOBUF = "application/x-protobuf"


@pytest.fixture
def send(client, member, owner):
    secret = api_key_create(actor=owner, name="exporter")[1]

    def post(body, kind=PROTOBUF, **headers):
        bearer = {"authorization": f"Bearer {secret}", "accept": PROTOBUF, **headers}
        return client.post("/v1/traces", body, content_type=kind, headers=bearer)

    return post


def traced(reward: float | None = 0.75):
    """Spans of one agent run: model, tool, model, under an agent span that repeats the tokens."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "customs-agent"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    question = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "What duty is due?"}]}])
    call = {"type": "tool_call", "id": "c1", "name": "lookup", "arguments": {"good": "pears"}}
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "qwen", "gen_ai.input.messages": question,
                 "gen_ai.usage.input_tokens": 50, "gen_ai.usage.output_tokens": 9}  # fmt: skip
        wrote = json.dumps([{"role": "assistant", "parts": [call]}])
        with tracer.start_as_current_span("chat qwen", attributes={**asked, "gen_ai.output.messages": wrote}):
            pass
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup",
            "gen_ai.tool.call.result": "3 a crate",
        }
        with tracer.start_as_current_span("execute_tool lookup", attributes=tool) as span:
            span.set_status(Status(StatusCode.OK))
        said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "The duty is 120."}]}])
        with tracer.start_as_current_span("chat qwen", attributes={**asked, "gen_ai.output.messages": said}) as span:
            if reward is not None:
                span.add_event(
                    "gen_ai.evaluation.result",
                    {"gen_ai.evaluation.name": "reward", "gen_ai.evaluation.score.value": reward},
                )
    return list(exporter.get_finished_spans())


def proto(spans) -> bytes:
    return encode_spans(spans).SerializeToString()


def test_trace_in_protobuf_is_stored_and_visible(send, team):
    answer = send(gzip.compress(proto(traced())), **{"content-encoding": "gzip"})
    assert (answer.status_code, answer["Content-Type"]) == (200, PROTOBUF)
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    rollout = Rollout.objects.get(team=team)
    assert (rollout.reward, rollout.answer, rollout.n_steps, rollout.n_tool_calls) == (0.75, "The duty is 120.", 2, 1)
    assert (rollout.input_tokens, rollout.output_tokens) == (100, 18)
    assert (rollout.batch.policy_label, rollout.title) == ("customs-agent", "What duty is due?")
    assert rollout.steps.first().tool_calls[0]["result"] == "3 a crate"


def test_trace_in_several_posts_in_any_order_and_twice_is_one_rollout(send, team):
    spans = traced()
    for part in (spans[2:], spans[:1], spans[1:2], spans[:1]):
        assert send(proto(part)).status_code == 200
    rollout = Rollout.objects.get(team=team)
    assert (rollout.n_steps, rollout.n_tool_calls, rollout.tool_path) == (2, 1, "lookup>answer")
    assert TraceSpan.objects.count() == 4
    assert not [flag for flag in rollout.flags if flag["code"] == "orphan_span"]


def test_trace_in_json_is_stored(send, team):
    attributes = [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                  {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "7"}}]  # fmt: skip
    span = {"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174", "name": "chat",
            "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000", "attributes": attributes}  # fmt: skip
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span, {"name": "no ids"}]}]}]}
    answer = send(json.dumps(document), kind="application/json")
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    rollout = Rollout.objects.get(team=team)
    assert (rollout.output_tokens, rollout.milliseconds) == (7, 1000)
    assert rollout.extra["trace_id"] == "5b8efff798038103d269b633813fc60c"


def test_spans_of_no_model_wait(send, team):
    assert send(proto(traced()[3:])).status_code == 200
    assert (TraceSpan.objects.count(), Rollout.objects.count()) == (1, 0)


def test_late_spans_of_a_closed_trace_are_refused_in_words(send, team):
    spans = traced()
    send(proto(spans))
    Rollout.objects.update(created_at=timezone.now() - timedelta(days=2))
    answer = ExportTraceServiceResponse.FromString(send(proto(spans[:1])).content)
    assert answer.partial_success.rejected_spans == 1
    assert "closed" in answer.partial_success.error_message
    assert Rollout.objects.get().n_steps == 2


@pytest.mark.parametrize(
    "body, kind, headers, status",
    [(b"\xff\xff\xff", PROTOBUF, {}, 400), (b"{", "application/json", {}, 400), (b"[1]", "application/json", {}, 400),
     (b'{"resourceSpans": {"a": 1}}', "application/json", {}, 400),
     (b'{"resourceSpans": [1, {"scopeSpans": [{"spans": [null]}]}]}', "application/json", {}, 200),
     (b"no", PROTOBUF, {"content-encoding": "gzip"}, 400), (b"no", PROTOBUF, {"content-encoding": "br"}, 400), (b"{}", "text/plain", {}, 415),
     (gzip.compress(b" " * 33_000_000), "application/json", {"content-encoding": "gzip"}, 413)],
)  # fmt: skip
def test_what_cannot_be_read_is_said(send, body, kind, headers, status):
    answer = send(body, kind, **headers)
    assert answer.status_code == status
    if status >= 400:
        assert answer.json()["error"]["message"]


def test_traces_of_two_teams_stay_apart_and_masks_hold(send, team, client, stranger):
    MaskRule.objects.create(team=team, kind="words", words="crate")
    spans = traced()
    send(proto(spans))
    other = api_key_create(actor=stranger, name="x")[1]
    client.post("/v1/traces", proto(spans), content_type=PROTOBUF, headers={"authorization": f"Bearer {other}"})
    assert Rollout.objects.filter(team=team).count() == Rollout.objects.filter(team=stranger.team).count() == 1
    mine = Rollout.objects.get(team=team)
    assert mine.steps.first().tool_calls[0]["result"] == "3 a [masked]"
    assert "3 a crate" not in json.dumps(list(TraceSpan.objects.filter(team=team).values_list("body", flat=True)))


def test_key_that_may_only_look_is_refused(client, owner, viewer):
    secret = api_key_create(actor=owner, name="look", role="viewer")[1]
    answer = client.post(
        "/v1/traces", b"{}", content_type="application/json", headers={"authorization": f"Bearer {secret}"}
    )
    assert answer.status_code == 403
