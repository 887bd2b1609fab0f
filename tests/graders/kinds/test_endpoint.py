"""Endpoint graders: the payload, and what each answer comes to."""

import pytest

from graders.clients import Unreachable
from graders.grading import compile_grader
from graders.types import Sample
from tests.graders.cases import load
from tests.graders.doubles import clients

CONFIG = {
    "type": "endpoint",
    "name": "own",
    "url": "https://grader.example.com/score",
    "headers": {"Authorization": "Bearer TEST-KEY"},
}


def graded(*answers):
    network, http = clients(*answers)
    return compile_grader(CONFIG, network).grade({"r": "1"}, Sample(output_text="1"), "trace_1"), http


@pytest.mark.parametrize(
    "case",
    load("expected_endpoint_grader.json")["responses"],
    ids=lambda case: str(case["body"])[:30] + str(case["http_status"]),
)
def test_answer_comes_to_what_is_expected(case):
    grade, http = graded((case["http_status"], case["body"]))
    if isinstance(case["expected"], float):
        assert grade.reward == case["expected"]
    elif case["body"].startswith('{"score": -1'):
        assert grade.reward == -1.0
    elif "last wins" in case["expected"]:
        assert grade.reward == 0.9
    else:
        assert grade.reward is None
        assert grade.errors == {"other_error": True}
        assert "TEST-KEY" not in str(grade.as_dict())
    assert len(http.requests) == (4 if case["http_status"] in (429, 503) else 1)


def test_html_answer_is_shown_cut_and_escaped():
    assert "&lt;html&gt;" in graded("<html>ok</html>")[0].details


def test_payload_has_the_keys_of_the_reference():
    wanted = load("endpoint_request_test.json")
    _, http = graded('{"score": 1}')
    url, headers, body = http.requests[0]
    assert set(body) == {"sample", "item", "trace_id"} >= set(wanted) - {"trace_id"}
    assert set(body["sample"]) >= set(wanted["sample"]) - {"namespace"}
    assert headers["Authorization"] == "Bearer TEST-KEY"
    assert body["trace_id"] == "trace_1"


def test_refused_address_is_not_asked_again():
    grade, http = graded(Unreachable("10.0.0.1 is an address inside this network", may_heal=False))
    assert grade.reward is None
    assert len(http.requests) == 1


def test_huge_request_is_refused_before_it_is_sent():
    network, http = clients('{"score": 1}')
    grade = compile_grader(CONFIG, network).grade({"r": "x" * 2_000_000}, Sample())
    assert "1 MB" in grade.details
    assert http.requests == []


def test_server_that_echoes_its_secrets_does_not_publish_them():
    network, _ = clients((200, "<pre>Authorization: Bearer s3cr3t-value token=qq-token-99</pre>"))
    config = {
        "type": "endpoint",
        "url": "https://grader.example.com/score?token=qq-token-99",
        "headers": {"Authorization": "Bearer s3cr3t-value"},
    }
    grade = compile_grader(config, network).grade({}, Sample(output_text="a"))
    assert grade.reward is None
    assert "s3cr3t-value" not in grade.details
    assert "qq-token-99" not in grade.details
