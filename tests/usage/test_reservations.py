"""Hold, spend, settle; and every limit that refuses a hold."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from django.utils import timezone

from rftstudio.core.errors import Conflict, NotAllowed, NotFound, QuotaExceeded, UserError
from rftstudio.teams.models import AuditEvent
from rftstudio.teams.services import api_key_create
from rftstudio.usage import scopes, selectors
from rftstudio.usage.models import Approval, LedgerLine, Reservation
from rftstudio.usage.services import (
    approval_approve,
    approval_decline,
    check_storage,
    quota_set,
    reservation_ask,
    reservation_hold,
    reservation_settle,
    stop_set,
    usage_record,
)
from tests.conftest import actor_in
from tests.factories.teams import UserFactory
from tests.factories.usage import PriceFactory, QuotaFactory

CASES = Path(__file__).parents[1] / "data/cases/inputs"


def hold(actor, amount, source="ftjob-1", kind="job", **more) -> Reservation:
    return reservation_hold(actor=actor, source=source, kind=kind, label=source, amount=amount, **more)


def spend(team, usd, source="ftjob-1", key="") -> None:
    usage_record(
        team=team, source=f"{source}/{key or usd}", unit="training_second", subject="trl", quantity=Decimal(usd),
        at=timezone.now(), batch_source=source,
    )  # fmt: skip


def kinds(source="ftjob-1") -> list[tuple[str, Decimal]]:
    return list(LedgerLine.objects.filter(batch_source=source).order_by("id").values_list("kind", "usd"))


def test_hold_record_settle_tells_its_story_in_lines(team, member):
    PriceFactory()
    QuotaFactory(team=team, usd_month=20)
    hold(member, "9.001")
    assert selectors.budget_get(team=team).left == Decimal("10.99")
    spend(team, "6.31")
    budget = selectors.budget_get(team=team)
    assert (budget.spent, budget.held, budget.left) == (Decimal("6.31"), Decimal("2.70"), Decimal("10.99"))
    reservation_settle(team=team, source="ftjob-1")
    assert kinds() == [("held", Decimal("9.01")), ("spent", Decimal("6.31")), ("returned", Decimal("2.70"))]
    assert selectors.budget_get(team=team).left == Decimal("13.69")
    reservation_settle(team=team, source="ftjob-1")
    assert len(kinds()) == 3


def test_hold_of_the_same_source_holds_once(member):
    hold(member, 5)
    hold(member, 5)
    assert Reservation.objects.get().held_usd == 5
    assert LedgerLine.objects.count() == 1


def test_hold_after_a_settle_adds_to_what_was_spent(team, member):
    PriceFactory()
    hold(member, 5)
    spend(team, 3)
    reservation_settle(team=team, source="ftjob-1")
    row = hold(member, 4)
    assert (row.held_usd, row.left_usd) == (7, 4)
    assert [line[0] for line in kinds()] == ["held", "spent", "returned", "held"]


def test_hold_of_another_teams_source_is_absent(member, stranger):
    hold(member, 5)
    with pytest.raises(NotFound):
        hold(stranger, 5)


def test_spend_past_a_hold_is_booked_in_full(team, member):
    PriceFactory()
    QuotaFactory(team=team, usd_month=20)
    hold(member, 5)
    spend(team, 6)
    budget = selectors.budget_get(team=team)
    assert (budget.spent, budget.held) == (6, 0)
    reservation_settle(team=team, source="ftjob-1")
    assert [line[0] for line in kinds()] == ["held", "spent"]


def test_hold_beyond_the_teams_quota_is_refused(team, member):
    QuotaFactory(team=team, usd_month="12.00")
    hold(member, 5, source="ftjob-0")
    with pytest.raises(QuotaExceeded, match=r"may cost \$7\.01; Duty desk has \$7\.00 left this month") as caught:
        hold(member, "7.001")
    assert caught.value.where == "hyperparameters.n_epochs"
    assert not Reservation.objects.filter(source="ftjob-1").exists()
    assert hold(member, 7).left_usd == 7


def test_parallel_calls_are_admitted_as_far_as_the_cap_reaches(team, member):
    """Each is reserved before it runs, so two of four fit, and the refused ones say why."""
    case = json.loads((CASES / "c069_race.json").read_text())
    PriceFactory()
    QuotaFactory(team=team, usd_month=case["cap"])
    spend(team, case["spent"], source="earlier")
    admitted, refused = 0, []
    for n, amount in enumerate(case["parallel"]):
        try:
            hold(member, amount, source=f"evalrun_{n}", kind="evaluation")
            admitted += 1
        except QuotaExceeded as exc:
            refused.append(str(exc))
    assert admitted == case["expected_admitted"]
    assert all("left this month" in words and "raise the quota" in words for words in refused)


def test_member_and_key_have_quotas_of_their_own(team, owner, member):
    key, _ = api_key_create(actor=owner, name="nightly")
    quota_set(actor=owner, user=member.user, usd_month=Decimal(3))
    quota_set(actor=owner, api_key=key, usd_month=Decimal(2))
    with pytest.raises(QuotaExceeded, match=str(member.user)):
        hold(member, 4)
    hold(owner, 4)
    by_key = type(member)(team=team, role=key.role, api_key=key)
    with pytest.raises(QuotaExceeded, match="key nightly"):
        hold(by_key, 3, source="ftjob-2")
    hold(by_key, 2, source="ftjob-2")
    assert selectors.budget_get(team=team, scope=scopes.of_key(key)).left == 0


def test_job_dearer_than_a_job_may_be_is_refused_also_in_parts(team, owner, member):
    PriceFactory()
    quota_set(actor=owner, usd_job=Decimal(10))
    with pytest.raises(QuotaExceeded, match=r"one job may cost \$10\.00 in all"):
        hold(member, 11)
    hold(member, 8)
    spend(team, 7)
    reservation_settle(team=team, source="ftjob-1")
    with pytest.raises(QuotaExceeded, match=r"after \$7\.00 spent already"):
        hold(member, 4)
    quota_set(actor=owner, job="ftjob-1", usd_job=Decimal(20))
    hold(member, 4)


def test_more_jobs_than_allowed_at_once_are_refused(owner, member):
    quota_set(actor=owner, jobs_at_once=2)
    hold(member, 1, source="ftjob-1")
    hold(member, None, source="ftjob-2")
    with pytest.raises(QuotaExceeded, match="2 jobs at once"):
        hold(member, 1, source="ftjob-3")
    hold(member, 1, source="evalrun_1", kind="evaluation")
    reservation_settle(team=member.team, source="ftjob-2")
    hold(member, 1, source="ftjob-3")


def test_more_rollouts_than_a_day_allows_are_refused(owner, member):
    quota_set(actor=owner, rollouts_day=100)
    hold(member, None, rollouts=70, source="evalrun_1", kind="evaluation")
    with pytest.raises(QuotaExceeded, match="30 of 100 left today"):
        hold(member, None, rollouts=31, source="evalrun_2", kind="evaluation")
    hold(member, None, rollouts=30, source="evalrun_2", kind="evaluation")


def test_storage_beyond_the_quota_is_refused(team, owner):
    check_storage(team=team, used_bytes=10**12, more_bytes=1)
    quota_set(actor=owner, storage_gb=Decimal("1.5"))
    check_storage(team=team, used_bytes=10**9, more_bytes=5 * 10**8)
    with pytest.raises(QuotaExceeded, match=r"may keep 1\.5 GB"):
        check_storage(team=team, used_bytes=10**9, more_bytes=6 * 10**8)


def test_work_without_a_price_is_held_at_nothing_until_money_is_gone(team, member):
    QuotaFactory(team=team, usd_month=1)
    assert hold(member, None).held_usd is None
    PriceFactory()
    spend(team, 1)
    with pytest.raises(QuotaExceeded, match="has no known price"):
        hold(member, None, source="ftjob-2")
    assert "used up" in selectors.spend_stop_reason(team=team, source="ftjob-1")


def test_last_months_spend_does_not_count(team, member):
    PriceFactory()
    QuotaFactory(team=team, usd_month=5)
    usage_record(
        team=team, source="old", unit="training_second", subject="trl", quantity=5, at=datetime(2020, 1, 5, tzinfo=UTC)
    )
    assert hold(member, 5).left_usd == 5


def test_stop_reason_comes_before_the_sum_is_passed(team, member):
    """0.50 with steps of 0.073: the step that would pass it is the last, so it is over by less than one step."""
    case = json.loads((CASES / "c065_cap.json").read_text())
    PriceFactory()
    hold(member, case["cap"])
    done = 0
    for step in case["calls"]:
        spend(team, step["cost"], key=f"step {step['step']}")
        done += 1
        if selectors.spend_stop_reason(team=team, source="ftjob-1", next_usd=Decimal(step["cost"])):
            break
    assert done == 6  # the seventh is at work by now and brings it to 0.511
    assert Reservation.objects.get().spent_usd + Decimal("0.073") - Decimal(case["cap"]) < Decimal("0.073")


def test_stop_switch_refuses_new_holds_and_stops_running_ones(team, member, stranger):
    admin = UserFactory(is_superuser=True)
    hold(member, 1)
    stop_set(user=admin, team=team, is_on=True, reason="budget talks.")
    with pytest.raises(QuotaExceeded, match=r"stopped for Duty desk: budget talks\. An administrator"):
        hold(member, 1, source="ftjob-2")
    assert selectors.spend_stop_reason(team=team, source="ftjob-1").startswith("Spending is stopped")
    hold(stranger, 1, source="ftjob-3")
    stop_set(user=admin, team=None, is_on=True, reason="fire")
    with pytest.raises(QuotaExceeded, match="for all teams: fire"):
        hold(stranger, 1, source="ftjob-4")
    for whose in (team, None):
        stop_set(user=admin, team=whose, is_on=False)
    hold(member, 1, source="ftjob-2")
    assert AuditEvent.objects.filter(team=team, verb="spending.stopped", user=admin).count() == 2


def test_stop_switch_needs_an_administrator_and_a_reason(team, owner):
    with pytest.raises(NotAllowed):
        stop_set(user=owner.user, team=team, is_on=True, reason="x")
    with pytest.raises(UserError, match="Say why"):
        stop_set(user=UserFactory(is_superuser=True), team=team, is_on=True)


def test_quota_is_set_by_owners_only_and_is_audited(team, owner, member, stranger):
    with pytest.raises(NotAllowed):
        quota_set(actor=member, usd_month=Decimal(1))
    with pytest.raises(NotFound):
        quota_set(actor=owner, user=stranger.user, usd_month=Decimal(1))
    quota_set(actor=owner, usd_month=Decimal(1))
    quota_set(actor=owner, usd_month=Decimal("2.50"), jobs_at_once=3)
    assert AuditEvent.objects.filter(verb="quota.set").last().data["usd_month"] == ["1.00", "2.50"]


@pytest.mark.parametrize("amount", ["-5", "NaN", "1e309", "10.001"])
def test_quota_of_no_amount_is_refused(owner, amount):
    with pytest.raises(UserError, match="not an amount"):
        quota_set(actor=owner, usd_month=Decimal(amount))


# -- asking -----------------------------------------------------------------------------------------------------------


def ask(actor, amount, source="ftjob-1", **more):
    return reservation_ask(actor=actor, source=source, kind="job", label="Job 1", amount=amount, rollouts=10, **more)


@pytest.fixture
def limit(owner):
    quota_set(actor=owner, usd_month=Decimal(400), approval_above_usd=Decimal(200))


def test_ask_below_the_limit_holds_at_once(limit, member):
    assert ask(member, 200).status == "held"


def test_ask_above_the_limit_waits_and_holds_nothing(limit, member):
    asked = ask(member, 285, likely=250)
    assert isinstance(asked, Approval)
    assert ask(member, 285) == asked
    assert not Reservation.objects.exists()
    assert asked in selectors.approval_list(team=member.team)


def test_ask_by_an_owner_needs_nobody(limit, owner):
    assert ask(owner, 285).status == "held"


def test_ask_beyond_the_quota_is_refused_at_once(limit, member):
    with pytest.raises(QuotaExceeded, match="left this month"):
        ask(member, 401)


def test_approval_holds_in_the_name_of_whoever_asked(limit, owner, member):
    approval = approval_approve(actor=owner, approval=ask(member, 285))
    row = Reservation.objects.get()
    assert (row.user, row.held_usd, row.rollouts) == (member.user, 285, 10)
    assert list(selectors.approvals_undone()) == [approval]
    assert AuditEvent.objects.filter(verb="approval.approved", user=owner.user).exists()


def test_approval_past_the_quota_needs_a_reason(limit, owner, member):
    first, second = ask(member, 285), ask(member, 250, source="ftjob-2")
    approval_approve(actor=owner, approval=first)
    with pytest.raises(UserError, match=r"passes the quota by \$135\.00"):
        approval_approve(actor=owner, approval=second)
    approval_approve(actor=owner, approval=second, reason="the client pays")
    assert selectors.budget_get(team=owner.team).over == 135


def test_approval_with_a_doubt_needs_a_reason(limit, owner, member):
    asked = ask(member, 285, concern="Baseline 28 is not ready.")
    with pytest.raises(UserError, match="Baseline 28 is not ready"):
        approval_approve(actor=owner, approval=asked)
    assert approval_approve(actor=owner, approval=asked, reason="a trial").reason == "a trial"


def test_approval_is_decided_once_by_a_right_holder(limit, owner, member, stranger):
    asked = ask(member, 285)
    with pytest.raises(NotAllowed):
        approval_approve(actor=member, approval=asked)
    with pytest.raises(NotFound):
        approval_approve(actor=stranger, approval=asked)
    with pytest.raises(UserError, match="Say why"):
        approval_decline(actor=owner, approval=asked, reason="")
    approval_decline(actor=owner, approval=asked, reason="too dear")
    with pytest.raises(Conflict, match="declined meanwhile"):
        approval_approve(actor=actor_in(owner.team, "owner"), approval=asked, reason="x")
    assert not Reservation.objects.exists()


def test_settle_withdraws_a_request_that_waits(limit, owner, member):
    asked = ask(member, 285)
    reservation_settle(team=member.team, source="ftjob-1")
    asked.refresh_from_db()
    assert asked.status == "withdrawn"


def test_job_needs_room_on_disk(member, owner):
    quota_set(actor=owner, storage_gb=Decimal(2))
    usage_record(team=member.team, source="d", unit="storage_gb_day", subject="storage", quantity=2, at=timezone.now())
    with pytest.raises(QuotaExceeded, match=r"keeps 2.00 of 2 GB"):
        reservation_hold(actor=member, source="ftjob-1", kind="job", label="Job 1", amount=1)
    reservation_hold(actor=member, source="evalrun_1", kind="evaluation", label="Evaluation 1", amount=1)
