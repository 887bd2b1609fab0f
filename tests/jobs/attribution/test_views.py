"""The rollout page and marks on steps."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.attribution import charts, summary, tasks
from jobs.attribution.models import RolloutCredit, StepMark
from jobs.attribution.services import attribution_compute
from jobs.rollouts.models import Step
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory, call, customs_group, steps_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(team):
    return customs_group(RolloutBatchFactory(team=team))


def show(client, rollout, **query):
    answer = client.get(reverse("rollouts:rollout-detail", args=[rollout.team.slug, rollout.public_id]), query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_rollout_detail_says_which_step_decided(client_of, member, group):
    text = show(client_of(member), group[3])
    words = re.search(r'class="walk-verdict"[^>]*>(.*?)</p>', text, re.S).group(1)
    assert "Step 2" in words
    assert "mattered most: it took" in words
    assert "They part here" in text
    assert 'class="fall"' in text
    assert text.count('id="step-') == 4
    assert RolloutCredit.objects.filter(rollout=group[3], method="divergence").exists()


@pytest.mark.parametrize("method", ["uniform", "divergence", "anchor_state", "prefix_value"])
def test_every_method_keeps_its_choice_and_ends_at_the_reward(client_of, member, group, method):
    text = show(client_of(member), group[0], credit=method)
    assert re.search(rf'href="\?credit={method}[^"]*"\s+aria-current="true"', text)
    assert "Not explained by this method" not in text
    assert "the 4 credits = 1.00" in text


def test_rewards_on_the_way_are_read_one_by_one(client_of, member, group):
    for rollout in group:
        Step.objects.filter(rollout=rollout).update(step_reward=0.1)
    text = show(client_of(member), group[0], credit="returns_to_go")
    assert "they do not add up to it" in text
    assert "paid 0.10" in text


def test_rows_are_list_items_with_a_label_in_words(client_of, member, group):
    text = show(client_of(member), group[3], credit="divergence")
    assert re.search(r'<li [^>]*aria-label="Step 2, lookup, credit minus 0\.\d\d, between [^"]+"', text)


def test_selected_step_shows_the_call_and_why(client_of, member, group):
    text = show(client_of(member), group[3], step=2, credit="divergence")
    assert "Why this much?" in text
    assert "1 rollout, mean 0.20" in text
    assert "The call as sent" in text
    assert "{&quot;good&quot;: &quot;fruit, dried&quot;}" in text
    assert "Why this much?" not in show(client_of(member), group[3], step=0)


def test_credit_stands_before_the_text_and_the_marks_of_the_opened_step(client_of, member, group):
    text = show(client_of(member), group[3], step=2, credit="divergence")
    row = text[text.index('id="step-2"') : text.index('id="step-3"')]
    places = [
        row.index(sign)
        for sign in ('class="fall"', "Why this much?", "The call as sent", "Your mark", "went another way")
    ]
    assert places == sorted(places)


def test_step_of_the_sibling_names_its_owner(client_of, member, group):
    text = show(client_of(member), group[3], step=3, credit="divergence", beside=1)
    assert "Here rollout 1 went another way" in text
    assert "Rollout 1 at this point" in text


def test_failed_tool_call_marks_its_step_in_shape_word_and_colour(client_of, member, group):
    text = show(client_of(member), group[2], credit="divergence", step=0)
    row = text[text.index('id="step-2"') : text.index('id="step-3"')]
    assert re.search(r'<span class="step-failed tone-bad"><svg class="glyph[^>]*>.*?</svg>failed</span>', row, re.S)
    assert 'aria-label="Step 2, lookup, failed, credit' in row
    assert text.count('class="step-failed') == 1
    assert 'href="?credit=divergence&amp;step=2#step-2">1 failed</a>' in text


def test_failed_call_among_several_says_how_many(client_of, member, team):
    calls = [call("lookup", "{}", "3"), call("lookup", "{}", "nothing", is_error=True)]
    made = customs_group(RolloutBatchFactory(team=team), tries=[(1.0, [calls, "yes"]), (0.0, ["no"])])
    assert "1 of 2 calls failed" in show(client_of(member), made[0])


def test_legend_explains_both_directions_and_both_fillings(client_of, member, group):
    text = show(client_of(member), group[3], credit="divergence")
    legend = re.search(r'<ul class="legend walk-legend".*?</ul>', text, re.S).group(0)
    for words in ("raised the reward", "lowered it", "filled, clear", "pale, could be zero"):
        assert words in legend
    assert "How to read the bars" not in show(client_of(member), group[7])


def test_beside_takes_a_rollout_by_number_or_id_and_cycles(client_of, member, group):
    client = client_of(member)
    assert ">Rollout 6<" in show(client, group[3], beside=6)
    text = show(client, group[3], beside=group[5].public_id)
    assert ">Rollout 6<" in text
    assert 'data-key="c"' in text
    assert ">Rollout 1<" in show(client, group[3], beside="no such rollout")


def test_ungraded_rollout_keeps_its_cards_and_says_why_there_is_no_credit(client_of, member, group):
    text = show(client_of(member), group[7])
    assert "ungraded, which is not 0" in text
    assert 'class="fall"' not in text
    assert "nothing found for pear crates" in text
    assert "The tariff server did not answer." in text


def test_lone_rollout_and_equal_rewards_say_so(client_of, member, team):
    lone = RolloutFactory(batch=RolloutBatchFactory(team=team), team=team)
    steps_for(lone, [[call("a", "{}", "b")], "c"])
    assert "only rollout of its item" in show(client_of(member), lone)
    batch = RolloutBatchFactory(team=team)
    pair = customs_group(batch, tries=[(0.5, [[call("a", "{}", "b")], "c"]), (0.5, [[call("d", "{}", "e")], "f"])])
    assert "no difference to share" in show(client_of(member), pair[0])


def test_rollout_without_steps_opens(client_of, member, team):
    for status in ("queued", "running"):
        rollout = RolloutFactory(
            batch=RolloutBatchFactory(team=team), team=team, status=status, stop_reason="", reward=None
        )
        assert "its steps appear here" in show(client_of(member), rollout)


def test_credit_follows_a_group_that_grew(client_of, member, group):
    client = client_of(member)
    show(client, group[0], credit="divergence")
    before = RolloutCredit.objects.get(rollout=group[0], method="divergence").baseline
    group[7].reward = 0.0
    group[7].save()
    show(client, group[0], credit="divergence")
    assert RolloutCredit.objects.get(rollout=group[0], method="divergence").baseline < before


def test_hostile_text_stays_text(client_of, member, team):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)> [a](javascript:alert(1)) \x1b[41mS"
    turns = [[call(evil, '{"q": "' + "<b>" + '"}', evil)], evil]
    made = customs_group(RolloutBatchFactory(team=team), tries=[(1.0, turns), (0.0, turns)])
    made[0].title = evil
    made[0].flags = [{"code": "x", "where": evil, "message": evil}]
    made[0].sub_rewards = {evil: 0.5}
    made[0].save()
    text = show(client_of(member), made[0], step=1)
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert 'href="javascript:' not in text
    assert "&lt;script&gt;" in text


def test_long_rollout_shows_two_hundred_steps_and_jumps(client_of, member, team):
    turns = [[call("look", f'{{"n": {n}}}', f"fact {n}")] for n in range(450)]
    tries = [(1.0, [*turns, "yes"]), (0.0, [*turns[:300], "no"]), (0.5, [*turns[:449], "maybe"])]
    made = customs_group(RolloutBatchFactory(team=team), tries=tries)
    client = client_of(member)
    text = show(client, made[0])
    assert "1 to 200 here" in text
    assert "Next 200 steps" in text
    assert len(text) < 300_000
    assert "401 to 451 here" in show(client, made[0], step=440)
    assert "201 to 400 here" in show(client, made[0], **{"from": 201})


def test_large_result_is_not_in_the_page(client_of, member, group):
    step = Step.objects.get(rollout=group[0], index=0)
    step.tool_calls[0]["result"] = "A" * 2_000_000
    step.save()
    text = show(client_of(member), group[0], step=1)
    assert len(text) < 80_000
    assert "Whole result, 2.0 MB" in text


def test_fragment_for_htmx_is_the_walk_alone(client_of, member, group):
    place = reverse("rollouts:rollout-detail", args=[member.team.slug, group[0].public_id])
    answer = client_of(member).get(place, {"step": 1}, headers={"HX-Request": "true", "HX-Target": "walk"})
    assert answer.content.decode().lstrip().startswith("<section")
    assert b"<html" not in answer.content


def test_fragment_of_a_method_that_is_ordered_reads_stored_credit_once(client_of, member, group):
    place = reverse("rollouts:rollout-detail", args=[member.team.slug, group[0].public_id])
    client, part = client_of(member), {"HX-Request": "true", "HX-Target": "walk"}
    client.get(place, headers=part)  # computes what there is to compute
    with CaptureQueriesContext(connection) as queries:
        client.get(place, {"credit": "judge"}, headers=part)
    assert sum('FROM "attribution_rolloutcredit"' in query["sql"] for query in queries.captured_queries) == 1


def test_step_mark_is_kept_changed_and_taken_back(client_of, expert, group):
    client = client_of(expert)
    place = reverse("attribution:step-mark", args=[expert.team.slug, group[0].public_id, 2])
    answer = client.post(f"{place}?credit=divergence", {"mark": "1"})
    assert answer.status_code == 302
    assert answer.url.endswith("credit=divergence&step=2#step-2")
    assert StepMark.objects.get().mark == 1
    client.post(place, {"mark": "-1"})
    assert StepMark.objects.get().mark == -1
    assert "<b>harms</b>" in show(client, group[0], step=2)
    client.post(place, {"mark": "none"})
    assert not StepMark.objects.exists()
    assert (
        client.post(
            reverse("attribution:step-mark", args=[expert.team.slug, group[0].public_id, 99]), {"mark": 1}
        ).status_code
        == 404
    )


def test_step_mark_by_a_viewer_is_refused_and_has_no_buttons(client_of, viewer, group):
    client = client_of(viewer)
    place = reverse("attribution:step-mark", args=[viewer.team.slug, group[0].public_id, 1])
    assert client.post(place, {"mark": "1"}).status_code == 403
    assert "Your mark" not in show(client, group[0], step=1)


def test_step_mark_by_a_stranger_is_not_found(client_of, stranger, team, group):
    place = reverse("attribution:step-mark", args=[team.slug, group[0].public_id, 1])
    assert client_of(stranger).post(place, {"mark": "1"}).status_code == 404


def test_method_list_tells_how_methods_are_tested(client_of, viewer):
    text = client_of(viewer).get(reverse("attribution:method-list", args=[viewer.team.slug])).content.decode()
    assert "Where rollouts part" in text
    assert "SALT" in text


def test_source_credit_shows_credit_by_tool_place_and_train_step(client_of, member, team):
    for step in (1, 2):
        batch = RolloutBatchFactory(team=team, source="ftjob-1", kind="train_step", train_step=step)
        made = customs_group(batch)
        attribution_compute(rollouts=batch, methods=["divergence", "anchor_state"])
    StepMark.objects.create(rollout=made[3], step_index=1, user=member.user, mark=-1)
    place = reverse("attribution:source-credit", args=[team.slug, "ftjob-1"])
    text = client_of(member).get(place, {"credit": "divergence"}).content.decode()
    assert "14 credited rollouts" in text
    assert "lookup" in text
    assert "credit-over-time" in text
    assert "Same situation" in text
    assert "harms" in text
    panel = client_of(member).get(place, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in panel
    assert "No credit yet" in panel


def test_source_credit_of_another_team_is_not_found(client_of, stranger, group):
    place = reverse("attribution:source-credit", args=[stranger.team.slug, group[0].batch.source])
    assert client_of(stranger).get(place).status_code == 404


def test_source_compute_queues_every_batch(
    client_of, member, viewer, group, monkeypatch, django_capture_on_commit_callbacks
):
    queued = []
    monkeypatch.setattr(tasks.attribution_compute, "apply_async", lambda args, **options: queued.append(*args))
    place = reverse("attribution:source-compute", args=[member.team.slug, group[0].batch.source])
    with django_capture_on_commit_callbacks(execute=True):
        assert client_of(member).post(place).status_code == 302
    assert queued == [group[0].batch_id]
    assert client_of(viewer).post(place).status_code == 403


def test_credit_of_a_very_long_group_comes_after_the_cards(client_of, member, group, monkeypatch):
    monkeypatch.setattr("jobs.attribution.selectors.COMPARED_STEPS", 10)
    text = show(client_of(member), group[3], credit="divergence")
    assert "The credit of this batch is being computed" in text
    assert text.count('id="step-') == 4
    assert not RolloutCredit.objects.exists()
    assert "Step 2" in show(client_of(member), group[3], credit="divergence", compute=1)
    assert set(RolloutCredit.objects.values_list("method", flat=True)) == {"divergence"}


def test_tools_seldom_called_share_a_line_and_stay_out_of_the_chart():
    tools = {"lookup": [(n, 0.1, 0) for n in range(9)]} | {f"lookup{n}": [(n, -0.6, -1)] for n in range(6)}
    lines = summary._by_tool(tools)
    assert [(line.name, line.steps, line.is_joined) for line in lines] == [
        ("lookup", 9, False),
        ("6 names seldom called", 6, True),
    ]
    assert lines[1].mean == pytest.approx(-0.6)
    assert [line.name for line in summary._by_tool({"a": [(1, 0.0, 0)], "b": [(1, 0.0, 0)]})] == ["a", "b"]
    over_time = {"lookup": [(n, 0.1) for n in range(30)], "lookup3": [(4, -0.6)]}
    assert [drawn["name"] for drawn in charts.credit_over_time(over_time)["data"]] == ["lookup"]
