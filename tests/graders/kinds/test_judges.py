"""Model graders: what is sent, what is read, what is asked again."""

import json

import pytest

from graders.clients import JudgeEndpoint, Unreachable
from graders.failures import Ungraded
from graders.grading import compile_grader
from graders.replies import read_label, read_mark
from graders.types import Sample
from graders.validation import grader_problems
from tests.graders.cases import load
from tests.graders.doubles import chat_reply, clients

SCORE = {
    "type": "score_model",
    "name": "judge",
    "model": "judge",
    "input": [{"role": "user", "content": "Expected {{ item.r }}; got {{ sample.output_text }}"}],
    "sampling_params": {"temperature": 0, "max_completions_tokens": 400},
}
ITEM, SAMPLE = {"r": "145"}, Sample(output_text="145.0")
REFUSED = pytest.mark.parametrize


def graded(*answers, **changes):
    network, http = clients(*answers)
    return compile_grader({**SCORE, **changes}, network).grade(ITEM, SAMPLE), http


@pytest.mark.parametrize("case", load("expected_judge_parse.json"), ids=lambda case: repr(case["raw_judge_reply"])[:30])
def test_judge_reply_is_read_as_expected(case):
    low, high = case["range"]
    expected = case["expected"]
    if isinstance(expected, float | int):
        assert read_mark(case["raw_judge_reply"], low, high).value == expected
    elif "or 7" in expected:
        assert read_mark(case["raw_judge_reply"], low, high).value == 7
    else:
        with pytest.raises(Ungraded) as failure:
            read_mark(case["raw_judge_reply"], low, high)
        assert failure.value.flag == "model_grader_parse_error"
        assert ("out of range" in failure.value.details) is ("out_of_range" in expected)


@pytest.mark.parametrize("reply", load("c051_replies.json"))
def test_prose_is_a_parse_error(reply):
    grade, _ = graded(chat_reply(reply))
    assert grade.reward is None
    assert grade.errors == {"model_grader_parse_error": True}


def test_out_of_range_and_error_texts_are_no_marks():
    ninety, error, brackets = (graded(chat_reply(reply))[0] for reply in load("c053_replies.json"))
    assert ninety.reward is brackets.reward is error.reward is None
    assert "out of range" in ninety.details
    assert "out of range" in brackets.details
    assert error.errors["model_grader_server_error"] is True


def test_request_has_the_wire_shape_and_usage_is_counted():
    grade, http = graded(chat_reply('{"steps": [{"description": "d", "conclusion": "Same amount."}], "result": 1}'))
    url, headers, body = http.requests[0]
    assert url == "http://judge.test/v1/chat/completions"
    assert headers["Authorization"] == "Bearer sk-secret"
    assert body["model"] == "wire-name"
    assert body["messages"] == [{"role": "user", "content": "Expected 145; got 145.0"}]
    assert body["max_completion_tokens"] == 400
    assert body["response_format"]["json_schema"]["strict"] is True
    assert grade.reward == 1.0
    assert grade.details == "Same amount."
    assert grade.usage == {
        "judge": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25, "cached_tokens": 0}
    }


def test_faults_that_heal_are_asked_again_and_are_no_failures():
    grade, http = graded((503, "{}"), (429, "{}"), Unreachable("timed out"), chat_reply("0.5"))
    assert (grade.reward, grade.errors, len(http.requests)) == (0.5, {}, 4)


def test_a_judge_that_stays_away_leaves_the_sample_ungraded():
    grade, http = graded((500, '{"error": {"message": "overloaded"}}'))
    assert grade.reward is None
    assert "overloaded" in grade.errors["model_grader_server_error_details"]
    assert len(http.requests) == 4


def test_a_wrong_key_is_not_asked_again_and_not_shown():
    grade, http = graded((401, '{"error": {"message": "bad key Bearer sk-secret"}}'))
    assert len(http.requests) == 1
    assert "bad key [hidden]" in grade.details
    echo, _ = graded(chat_reply("[ERROR] refused Bearer sk-secret"))
    assert "sk-secret" not in json.dumps([grade.as_dict(), echo.as_dict()])


def test_what_is_hidden_does_not_keep_the_reply_from_being_read():
    reply = '```json\n{"result": 0.5, "steps": [{"description": "d", "conclusion": "%s"}]}\n```'
    long = "x" * 595 + "Bearer sk-secret"  # the words are cut after 600 signs
    for said, kept in (("Half of the json is right.", "Half of the [hidden] is right."), (long, "x" * 595 + "[hidd")):
        network, _ = clients(chat_reply(reply % said))
        address = JudgeEndpoint("http://judge.test/v1?format=json", "m", {"Authorization": "Bearer sk-secret"})
        network.judge = lambda model, address=address: address
        grade = compile_grader(SCORE, network).grade(ITEM, SAMPLE)
        assert (grade.reward, grade.details) == (0.5, kept)


@pytest.mark.parametrize("said", ["[ERROR] refused {}", "I think {} is fine", '{{"error": "{}"}}', "x" * 190 + " {}"])
def test_secrets_are_nowhere_in_what_is_said_of_an_unread_reply(said):
    grade, _ = graded(chat_reply(said.format("Bearer sk-secret")))
    refused, _ = graded(chat_reply(None, refusal=said.format("sk-secret")))
    for one in (grade, refused):
        assert one.reward is None
        assert "sk-s" not in json.dumps(one.as_dict())
        assert "Bearer" not in json.dumps(one.as_dict())


def test_endpoint_without_structured_output_is_asked_for_text():
    refusal = (400, '{"error": {"message": "response_format is not supported"}}')
    grade, http = graded(refusal, chat_reply("Score: 0.25"))
    assert grade.reward == 0.25
    assert "response_format" not in http.requests[1][2]


def test_unreadable_reply_is_asked_once_more_and_both_are_paid():
    grade, http = graded(chat_reply("well…"), chat_reply("0.75"))
    assert grade.reward == 0.75
    assert grade.usage["judge"]["total_tokens"] == 50
    assert len(http.requests) == 2


def test_refusal_is_its_own_error():
    grade, _ = graded(chat_reply(None, refusal="I cannot help with that."))
    assert grade.errors == {"model_grader_refusal_error": True}


def test_unknown_model_names_what_to_do():
    grade, http = graded(chat_reply("1"), model="gpt-9")
    assert grade.reward is None
    assert "no model named gpt-9" in grade.details
    assert http.requests == []


def test_objects_are_pasted_as_json_and_parts_are_translated():
    parts = [
        {"type": "input_text", "text": "{{ item.calls }}"},
        {"type": "input_image", "image_url": "https://x/y.png"},
    ]
    network, http = clients(chat_reply("1"))
    grader = compile_grader({**SCORE, "input": [{"role": "system", "content": parts}]}, network)
    grader.grade({"calls": [{"ok": True}]}, SAMPLE)
    assert http.requests[0][2]["messages"][0]["content"] == [
        {"type": "text", "text": '[{"ok":true}]'},
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "auto"}},
    ]


LABEL = {
    "type": "label_model",
    "name": "tone",
    "model": "judge",
    "input": [{"role": "user", "content": "{{ sample.output_text }}"}],
    "labels": ["polite", "neutral", "rude"],
    "passing_labels": ["polite", "neutral"],
}


@pytest.mark.parametrize(
    "reply,reward", [('{"label": "polite"}', 1.0), ("Rude", 0.0), ('"neutral"', 1.0), ("not rude", None)]
)
def test_label_model_counts_passing_labels(reply, reward):
    network, _ = clients(chat_reply(reply))
    assert compile_grader(LABEL, network).grade(ITEM, SAMPLE).reward == reward


def test_pictures_and_sounds_are_filled_in():
    parts = [
        {"type": "input_image", "image_url": "{{ item.picture }}", "detail": "low"},
        {"type": "input_audio", "input_audio": {"data": "{{ item.sound }}", "format": "wav"}},
    ]
    network, http = clients(chat_reply("1"))
    item = {"picture": "data:image/png;base64,aGk=", "sound": "UklGRg=="}
    compile_grader({**SCORE, "input": [{"role": "user", "content": parts}]}, network).grade(item, SAMPLE)
    assert http.requests[0][2]["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": item["picture"], "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]


def test_unknown_field_of_a_sound_is_refused_with_its_place():
    part = {"type": "input_audio", "input_audio": {"data": "{{ item.voice }}", "format": "wav"}}
    config = {**SCORE, "input": [{"role": "user", "content": [part]}]}
    problem = grader_problems(config, fields={"r": None})[0]
    assert (problem.path, problem.code) == ("input[0].content[0].input_audio.data", "variable_missing")
    broken = {**SCORE, "input": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}
    assert [problem.path for problem in grader_problems(broken)] == ["input[0].content[0].input_audio.data"]


def test_reply_cut_at_the_token_limit_counts_only_when_its_json_is_whole():
    cut = json.loads(chat_reply("0"))  # perhaps the beginning of 0.85
    cut["choices"][0]["finish_reason"] = "length"
    grade, _ = graded(json.dumps(cut), json.dumps(cut))
    assert (grade.reward, grade.errors) == (None, {"model_grader_parse_error": True})
    assert "max_completions_tokens" in grade.details
    cut["choices"][0]["message"]["content"] = '{"steps": [], "result": 0.85}'
    assert graded(json.dumps(cut))[0].reward == 0.85


def test_answer_stopped_by_a_content_filter_is_a_refusal():
    stopped = json.loads(chat_reply(None))
    stopped["choices"][0]["finish_reason"] = "content_filter"
    assert graded(json.dumps(stopped))[0].errors == {"model_grader_refusal_error": True}


def test_label_inside_prose_is_not_taken():
    with pytest.raises(Ungraded):
        read_label("This is rude, or is it polite?", LABEL["labels"])


@pytest.mark.parametrize("name", ["clause_model_grader", "countdown_score_model_grader", "zava_score_model_grader"])
def test_published_judges_compile(name):
    grader = compile_grader(load(f"{name}.json"))
    assert any(variable.startswith("item.") for variable in grader.variables())
