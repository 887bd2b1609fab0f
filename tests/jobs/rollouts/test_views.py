"""The list, its fragments, whole results and exports, through the browser's door."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.rollouts.models import Step
from tests.factories.rollouts import RolloutBatchFactory, customs_group

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(team):
    return customs_group(RolloutBatchFactory(team=team, source="evalrun_1"))


def url(name, team, *args):
    return reverse(f"rollouts:{name}", args=[team.slug, *args])


PAGES = ["rollout-list", "rollout-export"]
FRAGMENTS = ["rollout-detail", "rollout-peek"]


def test_rollout_list_shows_groups_and_rollouts(client_of, viewer, group):
    page = client_of(viewer).get(url("rollout-list", viewer.team))
    text = page.content.decode()
    assert page.status_code == 200
    assert "8 rollouts" in text
    assert "part after step 1" in text
    assert group[0].public_id in text
    assert "ungraded" in text


def test_rollout_list_names_unknown_filters_and_the_way_out(client_of, member, group):
    text = client_of(member).get(url("rollout-list", member.team), {"foo": 1, "tool": "nope"}).content.decode()
    assert "There is no filter named foo" in text
    assert "No rollout fits all of these filters" in text
    assert "without Tool nope" in text


@pytest.mark.parametrize(
    "asked, tidy",
    [
        ("tool=&item=&part=&tokens_from=&tokens_to=", ""),
        ("by=rollout&item=crates&tokens_from=200&tokens_to=&part=", "by=rollout&item=crates&tokens=200-"),
        ("source=evalrun_1&tokens_to=800&part=", "source=evalrun_1&tokens=any-800"),
        ("source=evalrun_1&part=exact&part_from=0.8&part_to=1", "source=evalrun_1&sub_reward=exact%3A0.8-1"),
    ],
)
def test_filter_menu_comes_to_one_tidy_address(client_of, member, group, asked, tidy):
    client, home = client_of(member), url("rollout-list", member.team)
    answer = client.get(f"{home}?{asked}")
    assert answer["Location"] == (f"{home}?{tidy}" if tidy else home)
    assert "left out" not in client.get(answer["Location"]).content.decode()


def test_filter_menu_holds_what_is_chosen_and_says_what_some_filters_need(client_of, member, group):
    client, home = client_of(member), url("rollout-list", member.team)
    assert "fill in <b>Item</b> or <b>From</b> as well" in client.get(home).content.decode()
    text = client.get(
        f"{home}?source=evalrun_1&tokens=any-800&sub_reward=exact:0.8-&alike=0&kind=evaluation"
    ).content.decode()
    for field in (
        'name="source" value="evalrun_1"', 'name="tokens_from" value=""', 'name="tokens_to" value="800"',
        'name="part" value="exact"', 'name="part_from" value="0.8"', '<option value="0" selected>',
        '<option value="evaluation" selected>',
    ):  # fmt: skip
        assert field in text
    assert "fill in <b>Item</b>" not in text


def test_part_without_a_name_is_asked_for(client_of, member, group):
    answer = client_of(member).get(f"{url('rollout-list', member.team)}?item=a&part=&part_from=0.5", follow=True)
    assert "names no part" in answer.content.decode()


def test_rollout_list_without_rollouts_says_what_to_do(client_of, member):
    assert "No rollouts yet" in client_of(member).get(url("rollout-list", member.team)).content.decode()


def test_rollout_list_one_by_one_and_a_group_alone(client_of, member, group):
    client = client_of(member)
    assert client.get(url("rollout-list", member.team), {"by": "rollout"}).content.count(b"rollout-peek") == 0
    text = client.get(url("rollout-group", member.team, group[0].id), {"reward": "0.9-1"}).content.decode()
    assert text.count("outside the filter") == 5
    assert client.get(url("rollout-group", member.team, group[0].id), {"open": 0}).content.count(b"<tr") == 1


def test_rollout_peek_tells_the_steps(client_of, member, group):
    text = client_of(member).get(url("rollout-peek", member.team, group[2].public_id)).content.decode()
    assert "pear crates" in text
    assert "nothing found for pear crates" in text


def test_step_result_gives_the_whole_text_and_parts_of_a_long_one(client_of, member, group):
    step = Step.objects.get(rollout=group[0], index=0)
    step.tool_calls[0]["result"] = "<b>x</b>" * 100_000
    step.save()
    client, place = client_of(member), url("step-result", member.team, group[0].public_id, 1, 1)
    plain = client.get(place)
    assert plain["Content-Type"].startswith("text/plain")
    assert len(plain.content) == 800_000
    part = client.get(place, headers={"HX-Request": "true"}).content.decode()
    assert "&lt;b&gt;" in part
    assert "<b>x" not in part
    assert "Show more of" in part
    assert client.get(url("step-result", member.team, group[0].public_id, 9, 1)).status_code == 404
    assert client.get(url("step-result", member.team, group[0].public_id, 1, 0)).status_code == 404


@pytest.mark.parametrize("form", ["jsonl", "csv", "atif"])
def test_rollout_export_streams_the_present_search(client_of, member, group, form):
    answer = client_of(member).get(url("rollout-export", member.team), {"format": form, "passed": 1})
    lines = b"".join(answer.streaming_content).splitlines()
    assert len(lines) == 3 + (form == "csv")
    assert "attachment" in answer["Content-Disposition"]


def test_rollout_export_in_an_unknown_format_is_not_found(client_of, member):
    assert client_of(member).get(url("rollout-export", member.team), {"format": "exe"}).status_code == 404


@pytest.mark.parametrize("name", PAGES + FRAGMENTS)
def test_a_stranger_sees_nothing(client_of, stranger, team, group, name):
    args = [group[0].public_id] if name in FRAGMENTS else []
    assert client_of(stranger).get(url(name, team, *args)).status_code == 404


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_rollout_of_another_team_is_not_found(client_of, stranger, group, name):
    assert client_of(stranger).get(url(name, stranger.team, group[0].public_id)).status_code == 404


def test_a_visitor_is_sent_to_log_in(client, team, group):
    assert client.get(url("rollout-list", team)).status_code == 302


def test_list_asks_as_many_queries_for_twenty_groups_as_for_ten(client_of, member):
    batch = RolloutBatchFactory(team=member.team)
    client, counts = client_of(member), []
    for numbers in (range(10), range(10, 20)):
        for number in numbers:
            customs_group(batch, key=f"item-{number}")
        client.get(url("rollout-list", member.team))
        with CaptureQueriesContext(connection) as asked:
            client.get(url("rollout-list", member.team))
        counts.append(len(asked))
    assert counts[0] == counts[1]
