"""Text search: the database's index follows every write, and no team finds another's."""

import pytest
from django.http import QueryDict

from jobs.rollouts import explorer, search
from jobs.rollouts.filters import filters_from, rows
from jobs.rollouts.models import Rollout
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory

pytestmark = pytest.mark.django_db


def found(team, text):
    query = QueryDict(mutable=True)
    query["q"] = text
    return {r.sample_index for r in rows(team=team, filters=filters_from(query))}


@pytest.fixture
def batch(team):
    batch = RolloutBatchFactory(team=team)
    RolloutFactory(
        batch=batch, sample_index=1, title="Duty on pears", answer="It is 0.18 in all", tool_path="get_duty>answer"
    )
    RolloutFactory(batch=batch, sample_index=2, title="Zoll für Birnen", answer="It's 120'", error='broke "here"')
    return batch


@pytest.mark.parametrize(
    "text, expected",
    [("pears", {1}), ("PEARS duty", {1}), ("pear", set()), ("pear*", {1}), ("0.18", {1}), ("it", {1, 2}),
     ("birnen", {2}), ("für", {2}), ('"here" \'', {2}), ("item-1", {1, 2}), ("duty OR birnen", set()), ("get_duty", {1}),
     ("'", set()), ("pears) & (", {1}), ("nothing", set())],
)  # fmt: skip
def test_search_finds_rollouts_with_all_words(team, batch, text, expected):
    assert found(team, text) == expected


def test_search_follows_changes_and_removals(team, batch):
    Rollout.objects.filter(sample_index=1).update(answer="apples")
    assert (found(team, "apples"), found(team, "0.18")) == ({1}, set())
    Rollout.objects.filter(sample_index=1).delete()
    assert found(team, "apples") == set()


def test_search_finds_nothing_of_another_team(team, stranger, batch):
    RolloutFactory(batch=RolloutBatchFactory(team=stranger.team), sample_index=9, title="pears")
    assert found(team, "pears") == {1}
    assert found(stranger.team, "pears") == {9}
    assert found(team, f"ofteam{stranger.team.pk}x") == set()
    assert search.count(team.pk, "pears", 10) == 1


def test_rare_tool_is_found_beyond_the_newest(team, batch, monkeypatch):
    monkeypatch.setattr("jobs.rollouts.filters.NEAR", 0)
    page = explorer.rollout_page(team=team, filters=filters_from(QueryDict("tool=get_duty")))
    assert [row.rollout.sample_index for row in page.rows] == [1]
    assert explorer.counted(team=team, filters=filters_from(QueryDict("tool=get_duty"))).count == 1


def test_counts_say_how_far_they_went(team, batch, monkeypatch):
    monkeypatch.setattr(explorer, "COUNT_AMONG", 1)
    assert explorer.counted(team=team, filters=filters_from(QueryDict("steps=0"))) == explorer.Counted(1, among=1)
    monkeypatch.setattr(explorer, "COUNT_EXACT", 1)
    assert explorer.counted(team=team, filters=filters_from(QueryDict(""))) == explorer.Counted(1, is_more=True)
    assert explorer.counted(team=team, filters=filters_from(QueryDict("q=it"))) == explorer.Counted(1, is_more=True)


@pytest.mark.parametrize("query", ["source=ftjob-old", "item=old", "batch={batch}", "source=ftjob-old&passed=1"])
def test_count_of_an_old_source_does_not_stop_at_the_newest(team, batch, monkeypatch, query):
    monkeypatch.setattr(explorer, "COUNT_AMONG", 1)
    old = RolloutBatchFactory(team=team, source="ftjob-old")
    RolloutFactory(batch=old, group_key="old")
    RolloutFactory.create_batch(3, batch=batch)
    asked = filters_from(QueryDict(query.format(batch=old.public_id)))
    assert explorer.counted(team=team, filters=asked) == explorer.Counted(1)
