"""What masks take out and what they leave, and that every way in applies them."""

import json

import pytest

from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory
from jobs.rollouts.imports.service import rollouts_import
from jobs.rollouts.masking import KINDS, Mask, Rule, mask_of
from jobs.rollouts.models import MaskRule, Rollout, Step
from jobs.rollouts.services import batch_record
from tests.factories.rollouts import RolloutBatchFactory

ALL = Mask([Rule(kind) for kind in KINDS if kind != "words"])


@pytest.mark.parametrize(
    "text, shown",
    [
        ("write to anna.b+c@example.co.uk, please", "write to [email], please"),
        ("a@b is no address", "a@b is no address"),
        ("call +49 (30) 901820-0 now", "call [phone] now"),
        ("12 + 34 = 46", "12 + 34 = 46"),
        ("card 4111 1111 1111 1111.", "card [card]."),  # the networks' published test number
        ("order 4111 1111 1111 1112", "order 4111 1111 1111 1112"),
        ("pay to DE89 3704 0044 0532 0130 00", "pay to [iban]"),  # ISO 13616's example
        ("pay to DE89 3704 0044 0532 0130 01", "pay to DE89 3704 0044 0532 0130 01"),
        ("key sk-abcdefghijklmnop1234", "key [key]"),
        ("Authorization: Bearer abcdefghijklmnopqrstuv", "Authorization: Bearer [key]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N", "[key]"),
        *(
            (start + "a1B2" * 6, "[key]")
            for start in ("rfts-", "pk-", "rk-", "xoxb-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_")
        ),
        ("AKIAABCDEFGHIJKLMNOP", "[key]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "[key]"),
        ("4111111111111111", "[card]"),
        ("4-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1", "[card]"),
        ("DE89370400440532013000", "[iban]"),
        ("+4930901820", "[phone]"),
        ("0.1234567890123456", "0.1234567890123456"),
    ],
)
def test_ready_made_kinds(text, shown):
    assert ALL.text(text) == shown


@pytest.mark.parametrize(
    "words, text, shown",
    [("Project Blue", "about project blue", "about [masked]"), ("case-*", "see CASE-12_b.", "see [masked]."),
     ("(x)y z", "a (x)y z b", "a [masked] b")],
)  # fmt: skip
def test_own_words(words, text, shown):
    assert Mask([Rule("words", words)]).text(text) == shown


def test_rules_that_cannot_be_used_are_named():
    assert "3 letters" in Rule("words", "a*").problem
    assert "no kind" in Rule("regex", "(a+)+").problem
    assert mask_of([Rule("words", "**")]) is None


def test_arguments_stay_json():
    shown = ALL.arguments('{"card": 4111111111111111, "to": ["a@example.com", 5], "ok": true}')
    assert json.loads(shown) == {"card": "[card]", "to": ["[email]", 5], "ok": True}
    assert ALL.arguments("{broken a@example.com") == "{broken [email]"


def record(number):
    call = ToolCallRecord("c", "mail", '{"to": "a@example.com"}', "sent to a@example.com")
    steps = [StepRecord(0, reasoning="a@example.com", tool_calls=[call]), StepRecord(1, text="Done, a@example.com")]
    grade = {"reward": 1.0, "details": "said a@example.com"}
    trajectory = Trajectory(steps, "answered", "Done, a@example.com")
    return RolloutRecord("item", number, f"trace_{number}", trajectory, grade, extra={"who": "a@example.com"})


@pytest.mark.django_db
def test_records_are_masked_before_they_are_stored_and_say_so(team):
    MaskRule.objects.create(team=team, kind="email")
    batch = RolloutBatchFactory(team=team)
    assert batch_record(batch=batch, records=[record(0), record(1)]) == 2
    assert batch_record(batch=batch, records=[record(0), record(1)]) == 0  # the same record is still known
    stored = json.dumps(
        [list(Rollout.objects.values("answer", "grade", "extra")), list(Step.objects.values())], default=str
    )
    assert "example.com" not in stored
    assert {row.flags[0]["message"] for row in Rollout.objects.all()} == {"Masked before storing: 7 × email."}


@pytest.mark.django_db
def test_imports_are_masked_and_other_teams_are_not(member, stranger):
    MaskRule.objects.create(team=member.team, kind="email")
    messages = [
        {"role": "user", "content": "Ask a@example.com"},
        {"role": "assistant", "content": "a@example.com said yes"},
    ]
    content = json.dumps({"messages": messages, "reward": 1}).encode()
    for actor in (member, stranger):
        rollouts_import(actor=actor, content=content)
    mine, theirs = Rollout.objects.get(team=member.team), Rollout.objects.get(team=stranger.team)
    assert (mine.answer, theirs.answer) == ("[email] said yes", "a@example.com said yes")
    assert mine.extra["prompt"][0]["content"] == "Ask [email]"
