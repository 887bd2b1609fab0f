"""What the tool page asks this room for: how the tool has been answering."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from jobs.agents.selectors import tool_get
from jobs.rollouts.tool_stats import LOOKED_AT, tool_stats
from rftstudio.teams.views_helpers import TeamRequest, team_view


@team_view
@require_GET
def tool_panel(request: TeamRequest, public_id: str) -> HttpResponse:
    """A fragment; alone it is drawn as a page's part."""
    tool = tool_get(team=request.actor.team, public_id=public_id)
    context = {
        "tool": tool,
        "stats": tool_stats(team=request.actor.team, name=tool.name),
        "looked_at": LOOKED_AT,
        "team": request.actor.team,
    }
    return render(request, "rollouts/_tool_panel.html", context)
