"""Judge's marks: reading them, calibrating them on experts' marks, and the whole way against a fake judge."""

import json
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.agents.services import model_endpoint_key_set
from jobs.attribution import judge
from jobs.attribution.judging import LEAST_PAIRS, NoMarks, Told, calibrated, credits_of, messages, read_marks
from jobs.attribution.models import RolloutCredit, StepMark
from jobs.attribution.reliability import judge_reliability
from rftstudio.core.errors import NotAllowed, UserError
from rftstudio.usage.models import Reservation, UsageRecord
from tests.factories.agents import ModelEndpointFactory
from tests.factories.rollouts import RolloutBatchFactory, customs_group
from tests.factories.usage import PriceFactory
from tests.fakes.server import ModelServer


def told(*marks):
    return json.dumps(
        {"marks": [{"step": n, "mark": mark, "why": f"why {n}"} for n, mark in enumerate(marks, start=1)]}
    )


def test_marks_are_read_in_the_order_of_the_steps():
    text = json.dumps({"marks": [{"step": 2, "mark": -1, "why": "b"}, {"step": 1, "mark": 1}]})
    assert read_marks(f"```json\n{text}\n```", 2) == [(1, ""), (-1, "b")]


@pytest.mark.parametrize(
    "text, words",
    [("good job", "no list"), (told(1), "left out step 2"), (told(1, 0, 1), "step 3"), (told(1, 2), "not 1, 0 or -1"),
     (json.dumps({"marks": [{"step": 1, "mark": 1}, {"step": 1, "mark": 1}]}), "twice"),
     (json.dumps({"marks": [{"step": True, "mark": 1}]}), "step true"), (told(1, True), "not 1, 0 or -1")],
)  # fmt: skip
def test_marks_that_would_have_to_be_guessed_are_refused(text, words):
    with pytest.raises(NoMarks, match=words):
        read_marks(text, 2)


def test_words_of_the_judge_are_cleaned_before_they_are_cut():
    def clean(said: str) -> str:
        return said.replace("sk-secret", "[hidden]")

    text = json.dumps({"marks": [{"step": 1, "mark": 1, "why": "x" * 395 + "sk-secret"}]})
    assert read_marks(text, 1, clean) == [(1, "x" * 395 + "[hidd")]
    for row in ({"step": 1, "mark": "sk-secret"}, {"step": "sk-secret", "mark": 1}):
        with pytest.raises(NoMarks) as refused:
            read_marks(json.dumps({"marks": [row]}), 1, clean)
        assert "sk-secret" not in str(refused.value)


def test_calibration_by_hand():
    # Judge +1 on 10 steps: experts 8 × 1, 2 × 0. Judge −1 on 10 steps: experts 6 × −1, 4 × 0.
    found = calibrated([(1, 1.0)] * 8 + [(1, 0.0)] * 2 + [(-1, -1.0)] * 6 + [(-1, 0.0)] * 4)
    assert (found.pairs, found.agreement) == (20, 0.7)
    assert found.chance == 0.4
    # chance agreement of the margins: 0.5 · 0.4 + 0.5 · 0.3 = 0.35, kappa (0.7 − 0.35) / 0.65
    assert found.kappa == pytest.approx(0.35 / 0.65)
    assert found.worth[1].mean == pytest.approx(8 / 12)
    assert found.worth[-1].mean == pytest.approx(-6 / 12)
    assert (found.worth[0].count, found.worth[0].mean) == (0, 0.0)
    credits = credits_of([1, 0, -1], found, scale=0.5)
    assert credits["credits"] == pytest.approx([1 / 3, 0.0, -0.25])
    assert credits["support"] == [10, 0, 10]
    assert credits["low"][0] > 0
    assert credits["low"][1] is None


def test_marks_without_enough_experts_claim_nothing():
    found = calibrated([(1, 1.0)] * (LEAST_PAIRS - 1))
    assert credits_of([1, -1], found, scale=0.5) == {
        "credits": [0.5, -0.5], "low": [None, None], "high": [None, None], "support": [0, 0],
    }  # fmt: skip
    assert judge_reliability(found).blocks == 0
    assert "19 of its marks" in judge_reliability(found).sentence


def test_reliability_says_when_the_judge_adds_nothing():
    always = calibrated([(1, 1.0)] * 15 + [(1, -1.0)] * 5)
    assert judge_reliability(always).word == "weak"
    assert judge_reliability(calibrated([(1, 1.0)] * 12 + [(-1, -1.0)] * 12)).word == "high"


def test_judge_sees_no_reward():
    text = json.dumps(messages("task", [Told("did", "came")], "answered"))
    assert "reward" not in text


@pytest.fixture
def group(team):
    return customs_group(RolloutBatchFactory(team=team))


@pytest.fixture
def asked(team, settings):
    """A fake judge that answers from a list."""
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    replies = []
    with ModelServer(lambda messages, tools: {"content": replies.pop(0)}) as server:
        model = ModelEndpointFactory(team=team, base_url=server.url + "/v1")
        yield model, replies, server


def price(model, usd="1"):
    for unit in ("input_token", "output_token"):
        PriceFactory(unit=unit, subject=model.model, usd=Decimal(usd) / 1_000_000)


@pytest.mark.django_db(transaction=True)
def test_judge_marks_are_asked_once_paid_and_shown(group, asked, member, client_of):
    model, replies, server = asked
    price(model)
    rollout = group[3]
    replies += ["nonsense", told(0, -1, 0, 0)]
    judge.judge_start(actor=member, rollout=rollout, model=model)
    held = Reservation.objects.get(source=judge.source_of(rollout))
    assert held.held_usd >= held.spent_usd
    judge.judge_run(rollout_id=rollout.pk)
    judge.judge_run(rollout_id=rollout.pk)
    assert len(server.requests) == 2
    assert UsageRecord.objects.filter(batch_source=judge.source_of(rollout)).count() == 4
    held.refresh_from_db()
    assert held.status == "settled"
    url = reverse("rollouts:rollout-detail", args=[rollout.team.slug, rollout.public_id])
    text = client_of(member).get(url, {"credit": "judge", "step": 2}).content.decode()
    assert "why 2" in text
    assert "0 of its marks can be compared" in text
    credit = RolloutCredit.objects.get(rollout=rollout, method="judge")
    assert credit.credits == [0.0, -0.5, 0.0, 0.0]  # a full mark is half the group's range of rewards
    StepMark.objects.create(rollout=rollout, step_index=1, user=member.user, mark=-1)
    with CaptureQueriesContext(connection) as queries:
        assert judge.calibration_of(rollout.team, model.name).pairs == 1
    assert not [query for query in queries.captured_queries if '"answer"' in query["sql"]], "no rollout is read whole"


@pytest.mark.django_db(transaction=True)
def test_judge_that_cannot_be_read_says_so(group, asked, member, client_of):
    model, replies, _ = asked
    model_endpoint_key_set(actor=member, model=model, api_key="sk-hidden-one")
    replies += ["no", '{"marks": [{"step": 1, "mark": "sk-hidden-one"}]}']
    judge.judge_start(actor=member, rollout=group[0], model=model)
    assert judge.judge_run(rollout_id=group[0].pk) is False
    url = reverse("rollouts:rollout-detail", args=[group[0].team.slug, group[0].public_id])
    page = client_of(member).get(url).content.decode()
    assert "not 1, 0 or -1" in page
    assert "sk-hidden-one" not in page


@pytest.mark.django_db
def test_judge_is_asked_only_by_those_who_may_and_for_graded_rollouts(group, viewer, member, team):
    model = ModelEndpointFactory(team=team)
    with pytest.raises(NotAllowed):
        judge.judge_start(actor=viewer, rollout=group[0], model=model)
    with pytest.raises(UserError, match="needs a reward"):
        judge.judge_start(actor=member, rollout=group[7], model=model)
