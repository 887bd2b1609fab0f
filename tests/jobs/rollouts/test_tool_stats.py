"""How a tool has answered: counted by hand, and seen on the tool's page."""

import pytest
from django.urls import reverse

from jobs.rollouts.tool_stats import tool_stats
from tests.factories.agents import ToolFactory
from tests.factories.rollouts import RolloutBatchFactory, RolloutFactory, call, steps_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def rollouts(team):
    batch = RolloutBatchFactory(team=team)

    def looks(milliseconds, result="120", **extra):
        return call("lookup", "{}", result, milliseconds=milliseconds, **extra)

    first = RolloutFactory(batch=batch)
    steps_for(first, [[looks(5.0), looks(50.0)], [call("calc", "{}", "7", milliseconds=9000.0)], "120"])
    second = RolloutFactory(batch=batch)
    missing = {"result": "Error 404: no such line", "is_error": True}
    steps_for(second, [[looks(400.0, **missing)], [looks(600.0, **missing, notes=["answered at try 2"])], "?"])
    ended = RolloutFactory(batch=batch, stop_reason="tool_failed", status="failed", reward=None)
    steps_for(ended, [[looks(30_000.0, result="The tool lookup did not answer.", is_error=True)]])
    other = RolloutFactory(batch=batch)
    steps_for(other, [[call("lookup_more", "{}", "1")], "1"])
    return first, second, ended


def test_tool_stats_count_calls_times_and_errors(team, rollouts):
    first, second, ended = rollouts
    stats = tool_stats(team=team, name="lookup")
    assert (stats.calls, stats.rollouts, stats.errors, stats.retried, stats.ended) == (5, 3, 3, 1, 1)
    assert (stats.p50, stats.p95, stats.slowest) == (400.0, 30_000.0, 30_000.0)
    assert stats.slowest_rollout == ended.public_id
    assert [band["count"] for band in stats.bands] == [1, 1, 2, 0, 1]
    assert stats.messages[0] == {"text": "Error 404: no such line", "count": 2, "rollout": second.public_id}
    assert stats.error_share == pytest.approx(0.6)


def test_tool_stats_without_calls_invent_no_numbers(team):
    stats = tool_stats(team=team, name="lookup")
    assert (stats.calls, stats.p95, stats.error_share, stats.bands) == (0, None, None, [])


def test_tool_page_asks_for_the_panel_and_the_panel_shows_figures(client_of, viewer, rollouts):
    tool = ToolFactory(team=viewer.team, name="lookup")
    client = client_of(viewer)
    panel = reverse("rollouts:tool-panel", args=[viewer.team.slug, tool.public_id])
    page = client.get(reverse("agents:tool-detail", args=[viewer.team.slug, tool.public_id])).content.decode()
    assert panel in page
    shown = client.get(panel).content.decode()
    assert "5 in 3 rollouts" in shown
    assert "Error 404: no such line" in shown
    assert "60\u202f%" in shown


def test_tool_panel_of_a_tool_that_was_never_called_says_so(client_of, viewer):
    tool = ToolFactory(team=viewer.team, name="lookup")
    shown = client_of(viewer).get(reverse("rollouts:tool-panel", args=[viewer.team.slug, tool.public_id]))
    assert "has called it" in shown.content.decode()


def test_tool_panel_shows_nothing_of_another_team(client_of, stranger, viewer, rollouts):
    tool = ToolFactory(team=stranger.team, name="lookup")
    client = client_of(stranger)
    assert (
        "has called it"
        in client.get(reverse("rollouts:tool-panel", args=[stranger.team.slug, tool.public_id])).content.decode()
    )
    assert client.get(reverse("rollouts:tool-panel", args=[viewer.team.slug, tool.public_id])).status_code == 404
