"""The pages of costs through the browser's door."""

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from django.urls import reverse

from rftstudio.usage.models import Approval, LedgerLine, Quota, Reservation
from rftstudio.usage.services import Usage, stop_set, usage_record_many
from tests.factories.teams import UserFactory
from tests.factories.usage import PriceFactory
from tests.usage.world import month_of_spend

PAGES = ["cost-list", "cost-spend", "ledger-list", "ledger-export", "quota-list", "price-list"]


def address(team, name: str, *args) -> str:
    return reverse(f"usage:{name}", args=[team.slug, *args])


@pytest.fixture
def asked(owner, member) -> Approval:
    return month_of_spend(owner, member)


@pytest.mark.parametrize("name", PAGES)
def test_money_pages_open_for_engineers_and_for_nobody_below(
    name, team, asked, member, viewer, expert, stranger, client_of
):
    assert client_of(member).get(address(team, name)).status_code == 200
    for other, status in ((viewer, 403), (expert, 403), (stranger, 404)):
        assert client_of(other).get(address(team, name)).status_code == status


@pytest.mark.parametrize("name", PAGES)
def test_money_pages_of_an_empty_team_open(name, team, owner, client_of):
    assert client_of(owner).get(address(team, name)).status_code == 200


def test_cost_page_says_totals_first_and_names_what_has_no_price(team, asked, owner, client_of):
    page = client_of(owner).get(address(team, "cost-list")).content.decode()
    for words in ("Spent in", "Held for running work", "1 job", "Left this month", "What it went to", "training"):
        assert words in page
    assert "Counted, not priced: model-x" in page
    assert "Waiting for you" in page
    assert "Baseline 28 is not ready" in page


def test_cost_page_of_an_engineer_shows_no_approvals(team, asked, member, client_of):
    page = client_of(member).get(address(team, "cost-list"))
    assert b"Waiting for you" not in page.content
    assert page.context["approvals"] == []
    assert client_of(member).get(address(team, "approval-list")).status_code == 403


def test_viewer_sees_no_money_in_the_frame(team, asked, viewer, owner, client_of):
    home = reverse("teams:home", args=[team.slug])
    assert address(team, "cost-list").encode() not in client_of(viewer).get(home).content
    page = client_of(owner).get(home).content
    assert b"money-left" in page
    assert b" left</span>" in page


def test_frame_tells_that_spending_is_stopped(team, owner, client_of):
    stop_set(user=UserFactory(is_superuser=True), team=team, is_on=True, reason="audit")
    assert b"spending stopped" in client_of(owner).get(reverse("teams:home", args=[team.slug])).content


@pytest.mark.parametrize("by", ["category", "job", "model", "member", "nonsense"])
def test_spend_is_regrouped(team, asked, owner, client_of, by):
    answer = client_of(owner).get(address(team, "cost-spend"), {"by": by})
    assert answer.status_code == 200
    assert b"time zone" in answer.content


def test_costs_of_a_single_day_and_a_range_add_up_on_the_page(team, owner, client_of):
    case = json.loads((Path(__file__).parents[1] / "data/cases/inputs/c134_costs.json").read_text())
    team.time_zone = case["tz"]
    team.save()
    PriceFactory()
    from datetime import datetime

    usage_record_many(
        team=team,
        usages=[
            Usage(str(n), "training_second", "trl", Decimal(one["cost"]), datetime.fromisoformat(one["at"]))
            for n, one in enumerate(case["events"])
        ],
    )

    def spent(**query):
        return client_of(owner).get(address(team, "cost-spend"), query).context["usd"]

    single = [spent(day=day) for day in case["expected_local_days"]]
    assert single == [Decimal(usd) for usd in case["expected_local_days"].values()]
    assert spent(**{"from": "2026-05-30", "to": "2026-05-31"}) == sum(single) == 15
    page = client_of(owner).get(address(team, "cost-spend"), {"day": "2026-05-31"})
    assert b"Asia/Kolkata" in page.content


# -- approvals --------------------------------------------------------------------------------------------------------


def test_approve_without_the_reason_it_needs_asks_for_it(team, asked, owner, client_of):
    url = address(team, "approval-approve", asked.public_id)
    answer = client_of(owner).post(url)
    assert answer.status_code == 422
    assert b"Say why it may be spent" in answer.content
    answer = client_of(owner).post(url, {"reason": "the client waits"})
    assert answer.status_code == 302
    assert Reservation.objects.get(source="ftjob-thirteen").user == asked.asked_by


def test_decline_needs_a_reason(team, asked, owner, client_of):
    url = address(team, "approval-decline", asked.public_id)
    assert client_of(owner).post(url).status_code == 422
    client_of(owner).post(url, {"reason": "next month"})
    asked.refresh_from_db()
    assert (asked.status, asked.reason) == ("declined", "next month")


@pytest.mark.parametrize("verb", ["approve", "decline"])
def test_decisions_of_others_are_refused(verb, team, asked, member, stranger, client_of):
    for actor, status in ((member, 403), (stranger, 404)):
        url = address(team, f"approval-{verb}", asked.public_id)
        assert client_of(actor).post(url, {"reason": "x"}).status_code == status
    foreign = address(stranger.team, f"approval-{verb}", asked.public_id)
    assert client_of(stranger).post(foreign, {"reason": "x"}).status_code == 404
    asked.refresh_from_db()
    assert asked.status == "waiting"


# -- ledger -----------------------------------------------------------------------------------------------------------


def test_ledger_filters_stand_in_the_address_and_unknown_ones_are_named(team, asked, owner, client_of):
    answer = client_of(owner).get(address(team, "ledger-list"), {"category": "judge", "colour": "red"})
    assert {row["line"].category for row in answer.context["lines"]} == {"judge"}
    assert b"unknown here" in answer.content
    assert b"colour" in answer.content
    answer = client_of(owner).get(address(team, "ledger-list"), {"unpriced": "1"})
    assert [row["word"] for row in answer.context["lines"]] == ["counted, not priced"]
    assert b"$0.00" not in answer.content.split(b"<tbody>")[1]


def test_ledger_walks_all_pages(team, asked, owner, client_of):
    url, seen = address(team, "ledger-list"), []
    query = ""
    while True:
        answer = client_of(owner).get(url + query)
        seen += [row["line"].pk for row in answer.context["lines"]]
        if not (query := answer.context["next_url"]):
            break
    assert seen == list(LedgerLine.objects.order_by("-id").values_list("pk", flat=True))


def test_ledger_as_csv_has_each_line_and_no_formula(team, asked, owner, client_of):
    usage_record_many(team=team, usages=[Usage("x", "output_token", "=1+1", 5, asked.created_at, "", "", "@SUM(A1)")])
    answer = client_of(owner).get(address(team, "ledger-export"))
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert len(rows) == LedgerLine.objects.count()
    assert (rows[-1]["subject"], rows[-1]["note"], rows[-1]["usd"]) == ("'=1+1", "'@SUM(A1)", "")
    assert {row["usd"] for row in rows if row["subject"] == "model-x"} == {""}
    part = client_of(owner).get(address(team, "ledger-export"), {"kind": "held"})
    assert b"".join(part.streaming_content).count(b"\n") == 1 + LedgerLine.objects.filter(kind="held").count()


def test_ledger_asks_as_many_queries_for_fifty_lines_as_for_ten(
    team, asked, owner, client_of, django_assert_max_num_queries
):
    browser = client_of(owner)
    with django_assert_max_num_queries(12):  # the person, the frame with its money, one for all lines
        assert len(browser.get(address(team, "ledger-list")).context["lines"]) == 50


def test_line_is_corrected_by_an_owner_only(team, asked, owner, member, stranger, client_of):
    line = LedgerLine.objects.filter(kind="spent", category="judge").first()
    url = address(team, "line-correct", line.pk)
    assert client_of(member).post(url, {"usd": "0", "note": "x"}).status_code == 403
    assert client_of(stranger).post(url, {"usd": "0", "note": "x"}).status_code == 404
    foreign = address(stranger.team, "line-correct", line.pk)
    assert client_of(stranger).get(foreign).status_code == 404
    assert client_of(owner).get(url).status_code == 200
    assert client_of(owner).post(url, {"usd": "-1", "note": "x"}).status_code == 422
    assert client_of(owner).post(url, {"usd": "0.1", "note": "counted twice"}).status_code == 302
    assert line.corrections.get().note == "counted twice"


# -- quotas -----------------------------------------------------------------------------------------------------------

AMOUNTS = json.loads((Path(__file__).parents[1] / "data/cases/inputs/c072_amounts.json").read_text())


@pytest.mark.parametrize("amount", [*AMOUNTS, "1e3", "1_000", "٣", "0.001", "inf"])
def test_quota_takes_plain_positive_money_with_two_decimals_only(team, owner, client_of, amount):
    answer = client_of(owner).post(address(team, "quota-list"), {"whose": "team", "usd_month": amount})
    if amount.strip() == "7":
        assert Quota.objects.get().usd_month == 7
    else:
        assert answer.status_code == 422
        assert b'aria-invalid="true"' in answer.content
        assert not Quota.objects.exists()


def test_quota_of_a_member_is_set_and_lifted(team, owner, member, client_of):
    url, whose = address(team, "quota-list"), f"member:{member.user.pk}"
    client_of(owner).post(url, {"whose": whose, "usd_month": "12.50", "jobs_at_once": "2"})
    assert Quota.objects.get(user=member.user).usd_month == Decimal("12.50")
    page = client_of(owner).get(url, {"whose": whose})
    assert page.context["form"]["usd_month"].value() == Decimal("12.50")
    client_of(owner).post(url, {"whose": whose, "jobs_at_once": "2"})
    assert Quota.objects.get(user=member.user).usd_month is None


def test_quota_by_an_engineer_or_for_a_stranger_is_refused(team, owner, member, stranger, client_of):
    url = address(team, "quota-list")
    assert client_of(member).post(url, {"whose": "team", "usd_month": "5"}).status_code == 403
    answer = client_of(owner).post(url, {"whose": f"member:{stranger.user.pk}", "usd_month": "5"})
    assert answer.status_code == 422
    assert not Quota.objects.exists()


def test_prices_are_shown_as_they_are_sold(team, asked, owner, client_of):
    page = client_of(owner).get(address(team, "price-list")).content.decode()
    assert "$14.40" in page
    assert "hour of training" in page
    assert "model-x" in page


def test_time_zone_is_chosen_by_owners_and_moves_past_days_too(team, owner, client_of):
    from datetime import UTC, date, datetime

    from rftstudio.usage.models import MonthSum

    PriceFactory()
    late = datetime(2026, 6, 30, 20, tzinfo=UTC)
    usage_record_many(team=team, usages=[Usage("a", "training_second", "trl", 1, late)])
    url = address(team, "time-zone-set")
    client_of(owner).post(url, {"time_zone": "Mars/Olympus"})
    assert MonthSum.objects.get().month == date(2026, 6, 1)
    client_of(owner).post(url, {"time_zone": "Asia/Kolkata"})
    assert MonthSum.objects.get().month == date(2026, 7, 1)
    page = client_of(owner).get(address(team, "cost-spend"), {"day": "2026-07-01"})
    assert page.context["usd"] == 1
