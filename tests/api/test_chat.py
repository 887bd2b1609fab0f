"""Chat completions and responses through the unmodified SDK. The models behind are small servers of the tests."""

import itertools
import json

import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from jobs.agents.models import ModelEndpoint
from jobs.models import Job
from rftstudio.api import serving
from rftstudio.api.chat import passed_on
from rftstudio.usage.models import LedgerLine, Reservation, StopSwitch
from tests.fakes.server import HttpServer, ModelServer, Reply
from tests.jobs.conftest import look_until

pytestmark = pytest.mark.django_db
ASK = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": [{"type": "text", "text": "Hello?"}]}]
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
CALLED = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"a":1}'}}


@pytest.fixture
def local(team, settings, monkeypatch):
    """A model with weights here, served by a fake server; `local.answer` says what it answers."""
    with ModelServer(lambda messages, tools: {"content": "Good day."}) as server:
        monkeypatch.setattr("jobs.rollouts.policies.local.ensure_server", lambda *_, **__: server.url + "/v1")
        ModelEndpoint.objects.create(team=team, name="Tiny", kind="local", model="/weights", is_trainable=True)
        yield server


@pytest.fixture
def hosted(team, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    from rftstudio.core.sealed import seal

    with ModelServer(lambda messages, tools: {"content": "Good day."}) as server:
        ModelEndpoint.objects.create(
            team=team,
            name="Far",
            kind="openai",
            model="far-1",
            base_url=server.url + "/v1",
            api_key_sealed=seal("sk-hidden-key"),
        )
        yield server


def test_chat_answers_under_the_name_that_was_asked(ai, local, team):
    answer = ai.chat.completions.create(
        model="Tiny", messages=ASK, max_completion_tokens=9, top_logprobs=2, logprobs=True, user="me"
    )
    ChatCompletion.model_validate(answer.model_dump())
    assert (answer.model, answer.choices[0].message.content) == ("Tiny", "Good day.")
    assert answer.studio["without_effect"] == ["top_logprobs"]
    sent = local.requests[0].json()
    assert sent["messages"] == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello?"}]
    assert (sent["model"], sent["max_completion_tokens"]) == ("/weights", 9)
    assert "top_logprobs" not in sent
    lines = LedgerLine.objects.filter(team=team, kind="spent")
    assert sorted(lines.values_list("unit", "quantity")) == [("input_token", 20), ("output_token", 7)]
    assert Reservation.objects.get().status == "settled"


def test_chat_gives_several_choices(ai, local):
    answer = ai.chat.completions.create(model="Tiny", messages=ASK, n=3, seed=5)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert sorted(request.json()["seed"] for request in local.requests) == [5, 6, 7]
    assert answer.usage.completion_tokens == 21


def test_chat_streams_what_it_has(ai, local):
    with ai.chat.completions.stream(model="Tiny", messages=ASK, stream_options={"include_usage": True}) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_completion()
    assert "content.delta" in kinds
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("Good day.", "stop")
    assert whole.usage.total_tokens == 27
    first = next(iter(ai.chat.completions.create(model="Tiny", messages=ASK, stream=True, logit_bias={"1": 1})))
    assert first.studio["without_effect"] == ["logit_bias"]
    local.answer = lambda messages, tools: {"tool_calls": [CALLED]}
    chunks = list(ai.chat.completions.create(model="Tiny", messages=ASK, tools=[TOOL], stream=True, stop=["x"]))
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert calls[0].function.name == "look_up"
    assert local.requests[-1].json()["stop"] == ["x"]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_several_choices_are_streamed_when_they_are_done(ai, local):
    chunks = list(ai.chat.completions.create(model="Tiny", messages=ASK, stream=True, n=2))
    said = [(chunk.choices[0].index, chunk.choices[0].delta.content) for chunk in chunks]
    assert [one for one in said if one[1]] == [(0, "Good day."), (1, "Good day.")]


def test_responses_translate_to_chat_and_back(ai, local):
    local.answer = lambda messages, tools: {"tool_calls": [CALLED]} if len(messages) < 4 else {"content": "145"}
    flat = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}, "strict": False}
    first = ai.responses.create(model="Tiny", instructions="Be short.", input="Cap?", tools=[flat], store=False,
                                include=["reasoning.encrypted_content"])  # fmt: skip
    Response.model_validate(first.model_dump())
    assert first.studio["without_effect"] == ["include"], "nothing is encrypted here"
    call = first.output[0]
    assert (call.type, call.name, call.arguments, call.call_id) == ("function_call", "look_up", '{"a":1}', "call_1")
    history = [{"role": "user", "content": "Cap?"}, call.to_dict(),
               {"type": "function_call_output", "call_id": "call_1", "output": "145"}]  # fmt: skip
    second = ai.responses.create(model="Tiny", instructions="Be short.", input=history, tools=[flat])
    assert second.output_text == "145"
    assert second.usage.total_tokens == 27
    sent = local.requests[-1].json()["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"] == "call_1"


def test_responses_stream_as_the_sdk_reads_them(ai, local):
    with ai.responses.stream(model="Tiny", input="Hello?") as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_text.delta") == 2, "word by word"
    assert whole.output_text == "Good day."
    assert whole.usage.total_tokens == 27
    Response.model_validate(whole.model_dump())


def test_responses_stream_gives_words_and_calls_in_order(ai, local, team):
    local.answer = lambda messages, tools: {"content": "Let me look.", "tool_calls": [CALLED]}
    events = list(ai.responses.create(model="Tiny", input="Cap?", stream=True, include=["reasoning.encrypted_content"]))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    whole = events[-1].response
    assert [item.type for item in whole.output] == ["message", "function_call"]
    assert (whole.output_text, whole.output[1].arguments) == ("Let me look.", '{"a":1}')
    assert whole.studio["without_effect"] == ["include"]
    ids = {event.item_id for event in events if event.type == "response.output_text.delta"}
    assert ids == {whole.output[0].id}
    done = next(event for event in events if event.type == "response.function_call_arguments.done")
    assert (done.item_id, done.output_index) == (whole.output[1].id, 1)
    assert LedgerLine.objects.filter(team=team, kind="spent", unit="output_token").get().quantity == 7


def test_what_needs_a_store_is_refused(ai, local):
    with pytest.raises(openai.BadRequestError, match="nothing is stored"):
        ai.responses.create(model="Tiny", input="x", previous_response_id="resp_1")
    with pytest.raises(openai.BadRequestError, match="item_reference"):
        ai.responses.create(model="Tiny", input=[{"type": "item_reference", "id": "x"}])


def test_hosted_model_is_asked_with_its_own_key(ai, hosted):
    answer = ai.chat.completions.create(model="Far", messages=ASK, logit_bias={"1": 1})
    assert answer.model == "Far"
    sent = hosted.requests[0]
    assert (sent.headers["authorization"], sent.json()["model"]) == ("Bearer sk-hidden-key", "far-1")
    assert sent.json()["messages"] == ASK
    assert sent.json()["logit_bias"] == {"1": 1}


def test_hosted_refusals_are_told_without_the_key(ai, hosted):
    refuse = {"error": {"message": "temperature is too hot", "param": "temperature"}}
    hosted.script = [
        Reply.of(refuse, 400),
        Reply.of({"error": {"message": "bad key sk-hidden-key"}}, 401),
        Reply.of({}, 502),
    ]
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.chat.completions.create(model="Far", messages=ASK)
    assert refusal.value.body["param"] == "temperature"
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.chat.completions.create(model="Far", messages=ASK)
    assert "sk-hidden" not in str(refusal.value)
    with pytest.raises(openai.InternalServerError) as refusal:
        ai.chat.completions.create(model="Far", messages=ASK)
    assert refusal.value.status_code == 503


def test_hosted_stream_is_passed_on_and_booked(ai, team, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "far-1"}
    pieces = [
        base | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}]}
        for word in ("Good ", "day.")
    ]
    usage = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    pieces += [base | {"choices": [], "usage": usage}]
    body = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    with HttpServer(lambda request: Reply(body=body.encode(), headers={"Content-Type": "text/event-stream"})) as server:
        ModelEndpoint.objects.create(team=team, name="Far", kind="openai", model="far-1", base_url=server.url + "/v1")
        chunks = list(ai.chat.completions.create(model="Far", messages=ASK, stream=True))
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == "Good day."
    assert {chunk.model for chunk in chunks} == {"Far"}
    assert server.requests[0].json()["stream_options"] == {"include_usage": True}
    assert LedgerLine.objects.filter(team=team, kind="spent", unit="output_token").get().quantity == 2


def streaming(*pieces: dict) -> HttpServer:
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "far-1"}
    body = "".join(f"data: {json.dumps(base | piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    return HttpServer(lambda request: Reply(body=body.encode(), headers={"Content-Type": "text/event-stream"}))


def said(word: str, finish: str | None = None) -> dict:
    return {"choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": finish}]}


@pytest.mark.parametrize("read", [0, 1, 2])
def test_who_leaves_a_stream_early_pays_for_what_was_written(member, team, settings, read):
    """Closed as the web server does it: the SDK's transport of these tests would read it to its end."""
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    usage = {"prompt_tokens": 4, "completion_tokens": 9, "total_tokens": 13}
    so_far = usage | {"completion_tokens": 5}  # some say it with each piece
    with streaming(
        said("Good ") | {"usage": so_far}, said("day."), said("", "stop"), {"choices": [], "usage": usage}
    ) as server:
        ModelEndpoint.objects.create(team=team, name="Far", kind="openai", model="far-1", base_url=server.url + "/v1")
        served = serving.served_find(actor=member, name="Far")
        answer = passed_on(member, served, {"model": "Far", "messages": ASK, "stream": True})
        list(itertools.islice(answer.streaming_content, read))
        for closer in answer._resource_closers:  # all of close() but its signal, which would end the test's transaction
            closer()
    assert LedgerLine.objects.filter(team=team, kind="spent", unit="output_token").get().quantity == 9
    assert Reservation.objects.get().status == "settled"


def test_response_that_breaks_off_is_no_completed_one(ai, team, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    with streaming(said("Good ")) as server:
        ModelEndpoint.objects.create(team=team, name="Far", kind="openai", model="far-1", base_url=server.url + "/v1")
        events = list(ai.responses.create(model="Far", input="Hello?", stream=True))
    assert events[-1].type == "error"
    assert events[-1].code == "model_stopped"
    assert "response.completed" not in {event.type for event in events}


def test_tuned_model_is_served_by_its_names_until_it_is_deleted(ai, foreign, asked, trainer, monkeypatch):  # noqa: F811
    from tests.api.conftest import bring_to_launch

    made = ai.fine_tuning.jobs.create(**asked)
    job = look_until(bring_to_launch(made.id), seconds=40)
    assert isinstance(job, Job)
    name = ai.fine_tuning.jobs.retrieve(made.id).fine_tuned_model
    folders = []
    with ModelServer(lambda messages, tools: {"content": "tuned"}) as server:
        monkeypatch.setattr(
            "jobs.rollouts.policies.local.ensure_server",
            lambda folder, **_: folders.append(folder) or server.url + "/v1",
        )
        for asked_name in (name, f"{name}:ckpt-step-1"):
            assert ai.chat.completions.create(model=asked_name, messages=ASK).choices[0].message.content == "tuned"
    assert [folder.rpartition("/")[2] for folder in folders] == [
        job.best_checkpoint.public_id, job.checkpoints.get(step_number=1).public_id,
    ]  # fmt: skip
    assert ai.models.retrieve(name).studio["job"] == made.id
    with pytest.raises(openai.NotFoundError):
        foreign.chat.completions.create(model=name, messages=ASK)
    with pytest.raises(openai.NotFoundError):
        foreign.models.delete(name)
    assert ai.models.delete(f"{name}:ckpt-step-1").deleted
    with pytest.raises(openai.NotFoundError) as refusal:
        ai.models.retrieve(f"{name}:ckpt-step-1")
    assert refusal.value.body["code"] == "model_not_found"
    assert f"{name}:ckpt-step-1" not in [model.id for model in ai.models.list()]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": ASK}, "model"),
        ({"model": "Tiny", "messages": []}, "messages"),
        ({"model": "Tiny", "messages": "x"}, "messages"),
        ({"model": "Tiny", "messages": ASK, "n": 99}, "n"),
        ({"model": "Tiny", "messages": ASK, "colour": 1}, "colour"),
        ({"model": "Tiny", "messages": ASK, "stream": "yes"}, "stream"),
        ({"model": "Tiny", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
    ],
)
def test_bad_question_is_refused_with_its_parameter(ai, local, body, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        ai.post("/chat/completions", body=body, cast_to=object)
    assert refusal.value.body["param"] == param
    assert not LedgerLine.objects.exists()


def test_reading_key_samples_nothing_and_a_stop_holds(ai, reader, local):
    with pytest.raises(openai.PermissionDeniedError):
        reader.chat.completions.create(model="Tiny", messages=ASK)
    StopSwitch.objects.create(team=None, is_on=True, reason="holidays")
    with pytest.raises(openai.PermissionDeniedError, match="holidays"):
        ai.chat.completions.create(model="Tiny", messages=ASK)
    assert not local.requests


def test_stop_holds_for_a_hosted_stream_before_the_provider_is_asked(ai, hosted):
    StopSwitch.objects.create(team=None, is_on=True, reason="holidays")
    with pytest.raises(openai.PermissionDeniedError, match="holidays"):
        ai.chat.completions.create(model="Far", messages=ASK, stream=True)
    assert not hosted.requests
