"""Money around an evaluation: guessed, held, given back, stopped."""

from decimal import Decimal

import pytest
from django.utils import timezone

from jobs.evaluations import costs
from jobs.evaluations.models import Evaluation
from jobs.evaluations.services import evaluation_cancel, evaluation_settle, evaluation_start, evaluations_settle
from rftstudio.core.errors import QuotaExceeded
from rftstudio.usage import selectors
from rftstudio.usage.models import LedgerLine, Reservation
from rftstudio.usage.services import quota_set, usage_record
from tests.factories.studio import evaluation_parts, rollouts_end
from tests.factories.usage import PriceFactory


@pytest.fixture
def parts(member):
    return evaluation_parts(member.team)


@pytest.fixture
def prices(parts):
    name = parts["agent_version"].model.name
    PriceFactory(unit="input_token", subject=name, usd="0.000001")
    PriceFactory(unit="output_token", subject=name, usd="0.00001")


def used(evaluation: Evaluation, usd: str) -> None:
    subject = evaluation.model.name
    usage_record(
        team=evaluation.team, source=f"{evaluation.public_id}/{usd}", unit="output_token", subject=subject,
        quantity=int(Decimal(usd) * 100_000), at=timezone.now(), batch_source=evaluation.public_id,
    )  # fmt: skip


def test_evaluation_start_holds_a_guess_and_settle_gives_back_the_rest(member, parts, prices):
    evaluation = evaluation_start(actor=member, samples_per_item=2, **parts)
    row = Reservation.objects.get()
    # 12 rollouts × (8,192 tokens written × $10 + 4 steps × (1,500 + 4,096) tokens read × $1) a million.
    assert (row.held_usd, row.label, row.rollouts) == (Decimal("1.26"), "Evaluation 1", 12)
    used(evaluation, "0.30")
    rollouts_end(evaluation.batch, [1.0, 0.0])
    assert evaluation_settle(evaluation=evaluation)
    amounts = LedgerLine.objects.order_by("id").values_list("kind", "usd", "category")
    assert list(amounts) == [
        ("held", Decimal("1.26"), "evaluation"),
        ("spent", Decimal("0.30"), "evaluation"),
        ("returned", Decimal("0.96"), "evaluation"),
    ]
    again = evaluation_start(actor=member, samples_per_item=2, **parts)
    assert costs.Reservation.objects.get(source=again.public_id).held_usd == Decimal("0.45")  # 1.5 × the last one


def test_evaluation_start_without_a_price_holds_nothing(member, parts):
    evaluation_start(actor=member, **parts)
    assert Reservation.objects.get().held_usd is None


def test_evaluation_start_beyond_the_quota_leaves_nothing_behind(owner, member, parts, prices):
    quota_set(actor=owner, usd_month=Decimal("1.00"))
    with pytest.raises(QuotaExceeded, match=r"This evaluation may cost \$1\.26"):
        evaluation_start(actor=member, samples_per_item=2, **parts)
    assert not Evaluation.objects.exists()


def test_evaluation_that_used_up_its_hold_is_stopped_with_the_sum(member, parts, prices):
    evaluation = evaluation_start(actor=member, samples_per_item=2, **parts)
    used(evaluation, "1.30")
    assert evaluations_settle() == 1
    evaluation.refresh_from_db()
    assert evaluation.status == "cancelled"
    assert evaluation.error.startswith("Stopped at $1.30: the $1.26 held for it are used up")
    assert selectors.budget_get(team=member.team).held == 0


def test_evaluation_cancelled_gives_its_hold_back(member, parts, prices):
    evaluation = evaluation_start(actor=member, **parts)
    evaluation_cancel(actor=member, evaluation=evaluation)
    assert Reservation.objects.get().status == "settled"


def test_hold_whose_release_was_lost_is_found_by_the_next_look(member, parts, prices):
    evaluation = evaluation_start(actor=member, **parts)
    Evaluation.objects.filter(pk=evaluation.pk).update(status="failed", finished_at=timezone.now())
    evaluations_settle()
    assert Reservation.objects.get().status == "settled"
