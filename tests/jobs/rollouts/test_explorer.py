"""The list's reads: filters, keyset pages, groups, histograms."""

import pytest
from django.db import connection
from django.http import QueryDict

from jobs.rollouts import explorer
from jobs.rollouts.filters import chips, filters_from, range_text, read_range, rows
from jobs.rollouts.models import Rollout
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory, customs_group

pytestmark = pytest.mark.django_db


def filters(query: str):
    return filters_from(QueryDict(query))


@pytest.mark.parametrize(
    "text, ends",
    [("0.5-1", (0.5, 1)), ("-0.2-0.4", (-0.2, 0.4)), ("-1--0.5", (-1, -0.5)), ("5", (5, 5)), ("5-", (5, None)),
     ("-5", (-5, -5)), ("1-0.5", (0.5, 1)), ("1e-3-0.5", (0.001, 0.5)), ("a-b", None), ("nan", None), ("0-inf", None)],
)  # fmt: skip
def test_read_range(text, ends):
    if ends is None:
        with pytest.raises(ValueError, match="is no range"):
            read_range(text)
    else:
        assert read_range(text) == ends
        assert read_range(range_text(ends)) == ends


def test_unknown_and_unreadable_parameters_are_named():
    found = filters("foo=1&reward=high&stop=tired&status=done&by=rollout&page=2")
    assert found.status == "done"
    assert [p.split(" ")[0] for p in found.problems] == ["There", "Reward:", "Ended:", "There"]
    assert "foo" in found.problems[0]


def test_every_filter_narrows(team):
    batch = RolloutBatchFactory(team=team, source="ftjob-1", train_step=7, kind="train_step")
    made = customs_group(batch)
    other = RolloutFactory(batch=RolloutBatchFactory(team=team), team=team, group_key="z", reward=0.3)

    def found(query):
        return set(rows(team=team, filters=filters(query)).values_list("id", flat=True))

    assert found("source=ftjob-1") == {r.id for r in made}
    assert found("train_step=5-9") == {r.id for r in made}
    assert found("train_step=8-9") == set()
    assert found("item=z") == {other.id}
    assert found("reward=0.9-1") == {made[0].id, made[1].id, made[2].id}
    assert found("tool=calc") == {r.id for r in made if "calc" in r.tool_path}
    assert found("tool=cal") == set()
    assert found("stop=tool_failed") == {made[7].id}
    assert found("status=failed&graded=0") == {made[7].id}
    assert found("error=1") == {made[2].id, made[7].id}
    assert found("passed=1") == {made[0].id, made[1].id, made[2].id}
    assert found("q=did+not+answer") == {made[7].id}
    assert found(f"q={made[3].public_id}") == {made[3].id}
    assert found("steps=2&calls=1") == {made[5].id}
    assert found("q=%00") == found("")


def test_filters_that_lead_an_alarm_to_its_rollouts(team):
    train = RolloutBatchFactory(team=team, source="ftjob-1", train_step=7, kind="train_step")
    check = RolloutBatchFactory(team=team, source="ftjob-1", train_step=7, kind="validation")

    def made(batch, key, *rewards):
        parts = {None: {}, 0.0: {"cites": 0.9, "says so": 0.1}, 1.0: {"cites": 0.2, "says so": 0.1}}
        return [
            RolloutFactory(batch=batch, group_key=key, reward=reward, sub_rewards=parts[reward], output_tokens=100 * n)
            for n, reward in enumerate(rewards)
        ]

    low, mixed, lone = (
        made(train, "low", 0.0, 0.0, None),
        made(train, "mixed", 0.0, 1.0),
        made(train, "lone", 1.0, None),
    )
    checked = made(check, "low", 1.0, 1.0)

    def found(query):
        return {row.id for row in rows(team=team, filters=filters(f"source=ftjob-1&{query}"))}

    def ids(*rollouts):
        return {rollout.id for rollout in rollouts}

    assert found("kind=validation") == ids(*checked)
    assert found("kind=train_step&alike=1") == ids(low[0], low[1])
    assert found("alike=1&passed=1") == ids(*checked)
    assert found("kind=train_step&alike=0") == ids(low[2], *mixed, *lone)
    assert found("tokens=100-") == ids(low[1], low[2], mixed[1], lone[1], checked[1])
    assert found("sub_reward=cites:0.85-") == ids(low[0], low[1], mixed[0])
    assert found("sub_reward=says+so:0.1") == found("graded=1"), "a name may hold a blank"
    assert found("sub_reward=absent:0-1") == set()


@pytest.mark.parametrize(
    "query, words",
    [
        ("source=x&sub_reward=0.5-1", "names no part and range"),
        ("source=x&sub_reward=cites:high", "is no range"),
        ("kind=exam", "is no kind. Use one of evaluation, train_step"),
        ("alike=1", "choose a job, an evaluation or an item as well"),
        ("tokens=5-&kind=validation", "choose a job, an evaluation or an item as well"),
    ],
)
def test_filters_that_cannot_be_read_say_so(query, words):
    assert words in " ".join(filters(query).problems)


@pytest.mark.parametrize(
    "query",
    ["", "source=ftjob-1", "batch={batch}", "item=item-1", "train_step=7", "item=item-1&reward=0.9-1",
     "error=1&source=ftjob-1", "kind=train_step", "source=ftjob-1&tokens=0-", "q=pears", "tool=calc"],
)  # fmt: skip
@pytest.mark.parametrize("how", [{}, {"is_near": True}, {"is_rare": True}])
def test_rows_of_another_team_are_never_found(team, stranger, query, how):
    batch = RolloutBatchFactory(team=stranger.team, source="ftjob-1", train_step=7, kind="train_step")
    customs_group(batch, key="item-1")
    asked = filters(query.format(batch=batch.public_id))
    assert rows(team=stranger.team, filters=asked, **how).exists()
    assert not rows(team=team, filters=asked, **how).exists()


def test_chips_say_each_filter_in_words():
    query = QueryDict(
        "reward=0.5-1&error=1&stop=max_steps&train_step=5-&sub_reward=a:0.5-&kind=train_step&source=ftjob-1"
    )
    assert [(c["label"], c["value"]) for c in chips(filters_from(query), query)] == [
        ("From", "ftjob-1"), ("Train steps", "5 to any"), ("Reward", "0.5 to 1"), ("Sub-reward", "a 0.5 to any"),
        ("Ended", "step limit reached"), ("With an error", "yes"), ("Tried for", "train step"),
    ]  # fmt: skip


def test_pages_give_each_rollout_once_forward_and_back(team):
    batch = RolloutBatchFactory(team=team)
    Rollout.objects.bulk_create(RolloutFactory.build_batch(120, batch=batch, team=team))
    seen, after, pages = [], None, []
    while True:
        page = explorer.rollout_page(team=team, filters=filters(""), after=after)
        seen += [row.rollout.id for row in page.rows]
        pages.append(page)
        if page.after is None:
            break
        after = page.after
        # Rows that arrive meanwhile shift nothing.
        RolloutFactory(batch=batch, team=team)
    assert len(seen) == len(set(seen)) == 120
    back = explorer.rollout_page(team=team, filters=filters(""), before=pages[2].before)
    assert [row.rollout.id for row in back.rows] == [row.rollout.id for row in pages[1].rows]


def test_groups_come_whole_with_outsiders_marked(team):
    batch = RolloutBatchFactory(team=team)
    for number in range(25):
        customs_group(batch, key=f"item-{number}")
    page = explorer.group_page(team=team, filters=filters("reward=0-0.1"))
    assert len(page.groups) == explorer.GROUPS_PAGE
    group = page.groups[0]
    assert (group.key, group.size, group.passes, group.parts_after) == ("item-24", 8, 3, 1)
    assert [row.is_outside for row in group.rows].count(False) == 1
    rest = explorer.group_page(team=team, filters=filters("reward=0-0.1"), after=page.after)
    assert {g.key for g in page.groups} | {g.key for g in rest.groups} == {f"item-{n}" for n in range(25)}
    assert rest.after is None


def test_advantage_is_against_the_others_unless_the_trainer_said_so(team):
    made = customs_group(RolloutBatchFactory(team=team))
    made[1].advantage = 1.25
    made[1].save()
    by_id = {r.rollout.id: r.advantage for r in explorer.group_page(team=team, filters=filters("")).groups[0].rows}
    assert by_id[made[0].id] == pytest.approx(1 - (1 + 0.9 + 0.2 + 0.2 + 0 + 0.4) / 6)
    assert by_id[made[1].id] == 1.25
    assert by_id[made[7].id] is None


def test_histograms_count_what_the_other_filters_leave(team):
    batch = RolloutBatchFactory(team=team, source="ftjob-1", train_step=3, kind="train_step")
    customs_group(batch)
    data = explorer.reward_histogram(team=team, filters=filters("reward=0.9-1"))
    assert data.total == 7
    assert sum(bar.count for bar in data.bars) == 7
    assert [bar.count for bar in data.bars if bar.is_selected] == [1, 2]
    assert explorer.reward_histogram(team=team, filters=filters("item=none")).bars == []
    steps = explorer.step_histogram(team=team, filters=filters(""))
    assert [(bar.low, bar.count) for bar in steps.bars] == [(2, 2), (3, 1), (4, 4), (5, 1)]
    assert explorer.train_step_histogram(team=team, filters=filters("")).bars[0].count == 8


def test_rewards_outside_zero_to_one_widen_the_histogram(team):
    batch = RolloutBatchFactory(team=team)
    for reward in (-1.0, 5.0):
        RolloutFactory(batch=batch, team=team, reward=reward)
    data = explorer.reward_histogram(team=team, filters=filters(""))
    assert (data.bars[0].low, data.bars[-1].high, data.bars[0].count, data.bars[-1].count) == (-1, 5, 1, 1)


@pytest.mark.parametrize(
    "paths, after",
    [(["a>b>answer", "a>c>answer"], 1), (["a>answer"], None), (["a>answer", "a>answer"], None),
     (["a>b>answer", "a>b"], 2), (["", "a"], None), (["x>answer", "y>answer"], 0)],
)  # fmt: skip
def test_parts_after(paths, after):
    assert explorer.parts_after(paths) == after


def test_twenty_groups_ask_as_many_queries_as_ten(team, django_assert_max_num_queries):
    batch = RolloutBatchFactory(team=team)
    for number in range(20):
        customs_group(batch, key=f"item-{number}")
    with django_assert_max_num_queries(6):
        assert len(explorer.group_page(team=team, filters=filters("")).groups) == 20


@pytest.mark.skipif(connection.vendor != "sqlite", reason="plans of SQLite")
def test_items_and_sources_are_read_by_batch_whatever_the_statistics(team):
    """Without statistics SQLite takes the team's index for the best: a page would read every rollout of the team."""
    for query in ("item=item-1", "train_step=0-9", "source=x"):
        plan = rows(team=team, filters=filters(query)).explain()
        assert "batch_id=?" in plan
        assert "rollout_list" not in plan
    assert "rollout_with_error" in rows(team=team, filters=filters("error=1")).explain()
