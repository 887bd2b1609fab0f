"""Fragments of the team's home and the jump box. `home_urlpatterns` is included by jobs/urls.py.

They live here because the home belongs to teams, which may not look to the right.
"""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_GET

from jobs import home_jump, home_needs, home_running, home_selectors
from jobs.home_links import address
from rftstudio.teams.views_helpers import TeamRequest, team_view

MOST_NEEDS = 5


@team_view
@require_GET
def home_path(request: TeamRequest) -> HttpResponse:
    team = request.actor.team
    rows, more = home_selectors.path_rows(team=team)
    context = {
        "rows": rows,
        "more": more,
        "agents_url": address("agents:agent-list", team.slug),
        "upload_url": address("datasets:dataset-new", team.slug),
        "agent_url": address("agents:agent-new", team.slug),
    }
    return render(request, "jobs/_home_path.html", context)


@team_view
@require_GET
def home_needs_panel(request: TeamRequest) -> HttpResponse:
    found = home_needs.needs(team=request.actor.team)
    limit = None if request.GET.get("all") else MOST_NEEDS
    shown = found[:limit]
    return render(
        request, "jobs/_home_needs.html", {"needs": shown, "count": len(found), "more": len(found) - len(shown)}
    )


@team_view
@require_GET
def home_running_panel(request: TeamRequest) -> HttpResponse:
    return render(request, "jobs/_home_running.html", {"rows": home_running.running(team=request.actor.team)})


@team_view
@require_GET
def home_story(request: TeamRequest) -> HttpResponse:
    return render(request, "jobs/_home_story.html", {"deeds": home_needs.story(team=request.actor.team)})


@team_view
@require_GET
def jump(request: TeamRequest) -> HttpResponse:
    hits = home_jump.jump_hits(team=request.actor.team, text=request.GET.get("q", "")[:80])
    return render(request, "jobs/_jump.html", {"hits": hits, "text": request.GET.get("q", "")[:80]})


home_urlpatterns = [
    path("t/<slug:team>/home/path/", home_path, name="home-path"),
    path("t/<slug:team>/home/needs/", home_needs_panel, name="home-needs"),
    path("t/<slug:team>/home/running/", home_running_panel, name="home-running"),
    path("t/<slug:team>/home/story/", home_story, name="home-story"),
    path("t/<slug:team>/jump/", jump, name="jump"),
]
