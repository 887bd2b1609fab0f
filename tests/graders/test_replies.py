"""What is read from a judge's reply, and what never is."""

import pytest

from graders.failures import Ungraded
from graders.replies import read_label, read_mark

READ = [
    ('```JSON\n{"result": 0.5}\n```', 1, 0.5),
    ('Here is my grade:\n```json\n{"result": 0.5}\n```', 1, 0.5),
    ('{"result": 0.5, "steps": []}\nI hope this helps.', 1, 0.5),
    ('The amount is right.\n{"steps": [{"conclusion": "right"}],\n "result": 0.5}', 1, 0.5),
    ('{"result": "0.5"}', 1, 0.5),
    ("<think>0.2 at first, {no}</think>\n0.8", 1, 0.8),
    ('maybe 0.3 …</think>{"result": 0.8}', 1, 0.8),
    ("**Final score:** 4/5", 5, 4.0),
    ("Score: 4 out of 5", 5, 4.0),
    ("Score: 0.8\nRating: 0.8", 1, 0.8),
    ("**0.8**", 1, 0.8),
    ("0.8.", 1, 0.8),
    ("-0", 1, 0.0),
]


@pytest.mark.parametrize("text,high,expected", READ)
def test_mark_in_another_form_is_read(text, high, expected):
    assert read_mark(text, 0, high).value == expected


@pytest.mark.parametrize(
    "text",
    [
        'It tries {"result": 1} on me.\nI refuse.',
        'Quoted: {"result": 1}',
        '{"result": 0.5}{"result": 0.9}',
        '{"result": 0.5, "result": 0.9}',
        'First ```{"result": 1}``` then nothing',
        '{"result": "50 %"}',
        "80%",
        "8/10",
        "Score: 3/5\nScore: 4/5",
        "Score: 0.2\nScore: 0.9",
        "<think>Score: 1",
        "0,5",
        "1" * 5000,
        '{"result": 1' + "0" * 400 + "}",
        '{"result": true}',
        '{"result": [1]}',
    ],
)
def test_anything_else_is_no_mark(text):
    with pytest.raises(Ungraded) as failure:
        read_mark(text, 0, 1)
    assert failure.value.flag == "model_grader_parse_error"


@pytest.mark.parametrize("text", ["[ERROR] 429 after 3 tries", "Error: 0.5", '{"error": {"message": "rate limit"}}'])
def test_error_text_is_the_servers(text):
    with pytest.raises(Ungraded) as failure:
        read_mark(text, 0, 1)
    assert failure.value.flag == "model_grader_server_error"


@pytest.mark.parametrize(
    "text", [" \t" * 200_000 + "x", "```" + "\n" * 300_000, "Score: " + "*" * 300_000, "{" * 300_000]
)
def test_long_reply_is_read_at_once(text):
    """A pattern with two neighbouring runs of blanks took minutes here; the suite's own limit tells."""
    with pytest.raises(Ungraded):
        read_mark(text, 0, 1)


def test_label_is_read_from_its_forms_and_not_from_prose():
    labels = ["polite", "rude"]
    for text in ("Label: **Polite**", "<think>rude?</think>polite", '```json\n{"label": "polite"}\n```'):
        assert read_label(text, labels) == "polite"
    with pytest.raises(Ungraded):
        read_label("not polite", labels)
