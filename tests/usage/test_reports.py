"""Spend by day in the team's calendar, sums of parts, forecast, ledger pages."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import time_machine
from django.utils import timezone

from rftstudio.teams.actor import Actor
from rftstudio.teams.services import api_key_create
from rftstudio.usage import charts, quotas, reports, selectors
from rftstudio.usage.models import LedgerLine
from rftstudio.usage.periods import Period, period_of
from rftstudio.usage.services import Usage, quota_set, reservation_hold, usage_record_many
from tests.conftest import actor_in
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory
from tests.factories.teams import TeamFactory
from tests.factories.usage import PriceFactory, QuotaFactory

CASES = Path(__file__).parents[1] / "data/cases/inputs"


def case_of(team, name: str) -> dict:
    case = json.loads((CASES / name).read_text())
    team.time_zone = case["tz"]
    team.save()
    PriceFactory()
    usage_record_many(
        team=team,
        usages=[
            Usage(f"s{n}", "training_second", "trl", Decimal(one["cost"]), datetime.fromisoformat(one["at"]))
            for n, one in enumerate(case["events"])
        ],
    )
    return {date.fromisoformat(day): Decimal(usd) for day, usd in case["expected_local_days"].items()}


def days(first: date, last: date | None = None) -> Period:
    return Period("days", first, last or first)


@pytest.mark.parametrize("name", ["c134_costs.json", "c136_gap.json"])
def test_each_cost_falls_in_one_local_day_and_single_days_add_up_to_the_range(team, name):
    """India's half hour; five idle days; a day of 23 hours."""
    expected = case_of(team, name)
    whole = reports.spend_of(team=team, period=days(min(expected), max(expected)))
    assert {day: whole.on(day) for day in whole.days} == expected
    single = [reports.spend_of(team=team, period=days(day)).usd for day in expected]
    assert single == list(expected.values())
    assert sum(single) == whole.usd


def test_day_of_25_hours_is_one_bar(team):
    team.time_zone = "Europe/Berlin"
    team.save()
    PriceFactory()
    start = datetime(2026, 10, 24, 22, 30, tzinfo=UTC)
    usage_record_many(
        team=team,
        usages=[Usage(f"h{n}", "training_second", "trl", 1, start + timedelta(hours=n)) for n in range(25)],
    )
    spend = reports.spend_of(team=team, period=days(date(2026, 10, 24), date(2026, 10, 26)))
    assert [spend.on(day) for day in spend.days] == [0, 25, 0]


def test_spend_chart_names_the_zone_and_opens_the_ledger(team):
    expected = case_of(team, "c134_costs.json")
    spend = reports.spend_of(team=team, period=days(min(expected), max(expected)))
    figure = charts.spend_chart(spend, link=charts.ledger_link("/t/x/costs/ledger/"))
    assert figure["layout"]["xaxis"]["title"]["text"] == "day, Asia/Kolkata"
    assert "Asia/Kolkata" in figure["label"]
    assert figure["data"][0]["customdata"][1] == "/t/x/costs/ledger/?day=2026-05-31&category=training"
    assert charts.spend_table(spend)["rows"][1] == ["31 May", "$14.00", "$14.00"]


def used(team, source, quantity, *, at=None, job="", subject="trl", category="") -> None:
    at = at or datetime(2026, 6, 10, 12, tzinfo=UTC)
    usage_record_many(team=team, usages=[Usage(source, "training_second", subject, quantity, at, job, category)])


JUNE = Period("month", date(2026, 6, 1), date(2026, 6, 30))


def test_spend_is_grouped_by_purpose_job_model_and_member(team, member, owner):
    PriceFactory()
    reservation_hold(actor=member, source="ftjob-1", kind="job", label="Job 1", amount=9)
    reservation_hold(actor=owner, source="evalrun_1", kind="evaluation", label="Evaluation 1", amount=9)
    used(team, "a", 5, job="ftjob-1")
    used(team, "b", 2, job="evalrun_1", subject="gpt", category="judge")
    used(team, "c", 1)

    def rows(by):
        return [(row.label, row.usd) for row in reports.spend_of(team=team, period=JUNE, by=by).rows]

    assert rows("category") == [("Training", 6), ("Judges", 2)]
    assert rows("job") == [("Job 1", 5), ("Evaluation 1", 2), ("Trials and tests", 1)]
    assert rows("model") == [("trl", 6), ("gpt", 2)]
    assert rows("member") == [(str(member.user), 5), (str(owner.user), 2), ("nobody in particular", 1)]


@pytest.mark.parametrize("by", reports.BY)
def test_rows_of_the_table_find_their_ledger_lines(team, member, by):
    PriceFactory()
    reservation_hold(actor=member, source="ftjob-1", kind="job", label="Job 1", amount=9)
    used(team, "a", 5, job="ftjob-1")
    used(team, "c", 1, subject="a&b=c d", category="judge")
    for row in reports.spend_of(team=team, period=JUNE, by=by).rows:
        query = dict(parse_qsl(row.query))
        lines = reports.ledger_list(team=team, query=query).filter(kind__in=LedgerLine.SPEND)
        assert sum(line.usd for line in lines) == row.usd


def test_point_of_reward_costs_what_was_spent_over_the_rewards_of_graded_rollouts(team, member, client_of):
    PriceFactory()
    now = datetime(2026, 6, 10, 12, tzinfo=UTC)
    for source, rewards in (("ftjob-1", [1.0, 0.5, 0.0, None]), ("ftjob-2", [0.0]), ("ftjob-3", [])):
        batch = RolloutBatchFactory(team=team, source=source, kind="train_step", train_step=1)
        with time_machine.travel(now, tick=False):
            for reward in rewards:
                RolloutFactory(batch=batch, reward=reward)
        used(team, source, 6, job=source)
    with time_machine.travel(datetime(2026, 5, 31, 12, tzinfo=UTC), tick=False):
        RolloutFactory(batch=batch)  # of another month
    for scope, by in ((team, "job"), (None, "team")):
        spend = reports.spend_of(team=scope, period=JUNE, by=by)
        points = reports.points_of(spend, team=scope, by=by)
        found = [reports.usd_a_point(row, points) for row in spend.rows]
        assert found == ([4, None, None] if by == "job" else [12])
    page = client_of(member).get(f"/t/{team.slug}/costs/spend/", {"month": "2026-06", "by": "job"}).content.decode()
    assert "a point of reward" in page
    assert "$4.00" in page


def test_more_than_six_rows_are_folded_and_lose_nothing(team):
    PriceFactory()
    for n in range(9):
        used(team, f"s{n}", n + 1, subject=f"model {n}")
    spend = reports.spend_of(team=team, period=JUNE, by="model")
    drawn = reports.folded(spend)
    assert (len(drawn), drawn[-1].label) == (6, "4 others")
    assert sum(row.usd for row in drawn) == spend.usd == 45


def test_forecast_follows_the_last_weeks_and_states_its_range(team):
    PriceFactory()
    with time_machine.travel(datetime(2026, 6, 15, 12, tzinfo=UTC), tick=False):
        assert reports.forecast_of(team=team) is None
        for n in range(14):
            used(team, f"s{n}", 10 + n % 2, at=datetime(2026, 6, 1 + n, 12, tzinfo=UTC))
        found = reports.forecast_of(team=team)
        assert reports.forecast_of(team=None) == found
    assert found.low < found.usd < found.high
    assert found.usd == 147 + Decimal("10.5") * 16


def test_ledger_pages_hold_each_line_once_while_lines_are_added(team):
    PriceFactory()
    usage_record_many(
        team=team,
        usages=[Usage(f"s{n}", "training_second", "trl", 1, datetime(2026, 6, 1, tzinfo=UTC)) for n in range(120)],
    )
    seen, before = [], None
    while True:
        rows = reports.ledger_list(team=team, query={})
        page = list((rows.filter(id__lt=before) if before else rows)[:50])
        if not page:
            break
        seen += [line.source for line in page]
        before = page[-1].pk
        used(team, f"late {len(seen)}", 1)
    assert len(seen) == len(set(seen)) == 120


def test_ledger_shows_no_foreign_lines(team, stranger):
    used(stranger.team, "theirs", 1)
    assert not reports.ledger_list(team=team, query={}).exists()
    assert not reports.ledger_list(team=team, query={"for": "", "member": "0"}).exists()


def test_near_limits_lists_the_worst_first(team, owner, member, stranger):
    PriceFactory()
    quota_set(actor=owner, usd_month=Decimal(100))
    quota_set(actor=owner, user=member.user, usd_month=Decimal(10))
    QuotaFactory(team=stranger.team, usd_month=10)
    reservation_hold(actor=member, source="ftjob-1", kind="job", label="Job 1", amount=9)
    reservation_hold(actor=stranger, source="ftjob-2", kind="job", label="Job 1", amount=10)
    assert [line.quota.team for line in quotas.near_limits()] == [stranger.team, team]


def test_quotas_of_all_scopes_are_read_as_one_by_one_and_in_as_many_queries(
    team, owner, member, django_assert_num_queries
):
    PriceFactory()
    key, _ = api_key_create(actor=owner, name="k", budget_usd=Decimal(20))
    by_key = Actor(team=team, role="engineer", api_key=key)
    quota_set(actor=owner, usd_month=Decimal(100), jobs_at_once=3, rollouts_day=50)
    for actor, source in ((member, "ftjob-1"), (by_key, "ftjob-2"), (owner, "evalrun_1")):
        kind = "job" if source.startswith("ft") else "evaluation"
        reservation_hold(actor=actor, source=source, kind=kind, label=source, amount=9, rollouts=7)
        used(team, source, 2, job=source, at=timezone.now())
    quota_set(actor=owner, user=member.user, usd_month=Decimal(10), jobs_at_once=1, rollouts_day=9)
    quota_set(actor=owner, api_key=key, usd_month=Decimal(30))
    quota_set(actor=owner, job="ftjob-1", usd_job=Decimal(9))
    lines = {line.quota.scope: line for line in quotas.quota_lines(team=team)}
    assert list(lines) == ["team", f"member:{member.user.pk}", f"key:{key.pk}", "job:ftjob-1"]
    for scope, line in lines.items():
        if not scope.startswith("job:"):
            assert line.budget == selectors.budget_get(team=team, scope=scope), scope
        assert line.budget.held == selectors.held_usd(team=team, scope=scope)
    assert lines[f"key:{key.pk}"].budget.quota == 20, "the lower of the key's own budget and its quota"
    assert [(line.jobs, line.rollouts) for line in lines.values()] == [(2, 21), (1, 7), (1, 7), (1, 7)]
    for n in range(10):
        QuotaFactory(team=actor_in(TeamFactory(), "owner").team, usd_month=n + 1, rollouts_day=1)
    with django_assert_num_queries(5):
        quotas.near_limits()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({}, "June 2026"),
        ({"month": "2026-02"}, "February 2026"),
        ({"day": "2026-05-31"}, "31 May 2026"),
        ({"year": "2025"}, "2025"),
        ({"from": "2026-05-30", "to": "2026-06-02"}, "30 May to 2 June 2026"),
        ({"month": "x"}, "June 2026"),
        ({"day": "2026-02-30"}, "June 2026"),
        ({"from": "2026-06-02", "to": "2026-05-30"}, "June 2026"),
        ({"year": "99999"}, "June 2026"),
    ],
)
def test_period_of_an_address(query, words):
    assert period_of(query, date(2026, 6, 15)).words == words


def test_period_before_and_after_is_of_the_same_kind():
    june = period_of({}, date(2026, 6, 15))
    assert (june.shifted(-1).words, june.shifted(1).words) == ("May 2026", "July 2026")
    day = period_of({"day": "2026-03-01"}, date(2026, 6, 15))
    assert (day.shifted(-1).words, day.shifted(1).query) == ("28 February 2026", "day=2026-03-02")
