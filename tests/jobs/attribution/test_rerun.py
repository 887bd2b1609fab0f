"""Re-run from here: the arithmetic by hand, and real continuations of a stored rollout against a fake model."""

import math
from decimal import Decimal

import pytest
from django.urls import reverse

from jobs.attribution.models import RolloutCredit
from jobs.attribution.rerun import credit_of, estimate, rerun_settle, rerun_start, rerun_state, reruns_sweep, why_not
from jobs.rollouts.models import Rollout
from jobs.rollouts.services import rollouts_run
from rftstudio.core.errors import Conflict, NotAllowed, UserError
from rftstudio.usage.models import Reservation
from tests.factories.usage import PriceFactory
from tests.jobs.rollouts.conftest import (  # noqa: F401 the same desk that rollouts run at
    agent_version,
    batch_of,
    grader,
    grader_version,
    items,
    model_server,
)


def test_credit_is_the_change_of_the_mean_reward():
    made = credit_of(1.0, [0.0, 1.0], [[1.0, 0.0, 1.0, 0.0], [1.0] * 4])
    assert made["baseline"] == 0.5
    assert made["credits"] == pytest.approx([0.0, 0.5, 0.0])
    assert made["support"] == [2, 4, 4]
    assert made["low"][1] < 0.5 < made["high"][1]


def test_prefix_without_enough_continuations_has_no_support():
    made = credit_of(0.0, [1.0, 1.0], [[0.0], [0.0] * 5])
    assert sum(made["credits"]) == pytest.approx(-1.0)
    assert made["support"] == [0, 0, 5]
    assert made["low"][:2] == [None, None]


@pytest.fixture
def done(batch_of, grader):  # noqa: F811
    batch = batch_of()
    rollouts_run(batch_id=batch.pk)
    return list(batch.rollouts.order_by("id"))


@pytest.mark.django_db(transaction=True)
def test_rerun_goes_on_from_each_step_and_credits_them(done, member, grader, model_server):  # noqa: F811
    rollout = done[0]
    batch = rerun_start(actor=member, rollout=rollout, continuations=4)
    assert rerun_state(rollout).is_running
    assert rerun_settle(rollout=rollout, siblings=done[:2]) is None
    rollouts_run(batch_id=batch.pk)
    again = batch.rollouts.first()
    assert (again.n_steps, again.reward) == (2, 1.0)
    first = again.steps.get(index=0)
    assert first.tool_calls == rollout.steps.get(index=0).tool_calls
    assert first.output_tokens == 0
    credit = rerun_settle(rollout=rollout, siblings=done[:2])
    assert abs(math.fsum(credit.credits) - (rollout.reward - credit.baseline)) <= 1e-9
    assert credit.support == [1, 4]
    assert RolloutCredit.objects.get(method="rerun").rollout == rollout


@pytest.mark.django_db(transaction=True)
def test_rerun_is_ordered_once_and_only_by_those_who_may(done, member, viewer):
    with pytest.raises(NotAllowed):
        rerun_start(actor=viewer, rollout=done[0])
    rerun_start(actor=member, rollout=done[0])
    with pytest.raises(Conflict):
        rerun_start(actor=member, rollout=done[0])
    assert Rollout.objects.filter(batch__kind="rerun").count() == 8


@pytest.mark.django_db(transaction=True)
def test_rerun_says_why_it_cannot(done, member):
    rollout = done[0]
    assert why_not(rollout, 1) == ""
    assert "graded sibling" in why_not(rollout, 0)
    rollout.batch.agent_version.tools = [{"name": "pay", "transport": "http"}]
    assert "may have side effects" in why_not(rollout, 1)
    rollout.item = None
    assert "not stored here" in why_not(rollout, 1)
    rollout.batch.model = None
    with pytest.raises(UserError, match="no policy"):
        rerun_start(actor=member, rollout=rollout)


@pytest.mark.django_db(transaction=True)
def test_rerun_is_offered_with_its_size_and_found_under_its_method(done, member, client_of, grader):  # noqa: F811
    rollout = done[0]
    assert estimate(rollout).rollouts == 8
    client = client_of(member)
    place = reverse("rollouts:rollout-detail", args=[member.team.slug, rollout.public_id])
    assert "Re-run 8 rollouts, no price set" in client.get(place).content.decode()
    start = reverse("attribution:rerun-start", args=[member.team.slug, rollout.public_id])
    assert client.post(start).status_code == 302
    assert "0 of 8 continuations" in client.get(place).content.decode()
    rollouts_run(batch_id=Rollout.objects.filter(batch__kind="rerun").first().batch_id)
    text = client.get(place, {"credit": "rerun", "step": 1}).content.decode()
    assert "over 1 continuations" in text or "continuations." in text
    assert 'class="fall"' in text


@pytest.mark.django_db(transaction=True)
def test_rerun_holds_its_money_stops_when_it_is_used_up_and_gives_the_rest_back(done, member, grader):  # noqa: F811
    rollout = done[0]
    rollout.steps.update(input_tokens=1000, output_tokens=100)
    for unit in ("input_token", "output_token"):
        PriceFactory(unit=unit, subject=rollout.batch.model.model, usd="0.000001")
    batch = rerun_start(actor=member, rollout=rollout)
    held = Reservation.objects.get(source=batch.source)
    assert held.held_usd == Decimal(
        "0.02"
    )  # 8 × 1,100 tokens at a dollar a million, half as much again, in whole cents
    reruns_sweep()
    held.refresh_from_db()
    assert held.status == "held"
    rows = batch.rollouts.order_by("id")
    rollouts_run(batch_id=batch.pk, limit=4)
    Reservation.objects.filter(pk=held.pk).update(spent_usd=held.held_usd)
    rows.filter(pk=rows.last().pk).update(status="queued", stop_reason="", reward=None)
    reruns_sweep()
    reruns_sweep()
    held.refresh_from_db()
    assert held.status == "settled"
    assert rerun_state(rollout).note == "stopped when its money was used up"
    assert rows.last().status == "cancelled"
    assert rerun_settle(rollout=rollout, siblings=done[:2]) is not None
