"""The browser's door to evaluations."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from jobs.evaluations import pages, selectors, services
from jobs.evaluations.forms import EvaluationForm
from rftstudio.core.errors import NotFound
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

PAGE = 50


@team_view
@require_GET
def evaluation_list(request: TeamRequest) -> HttpResponse:
    """All evaluations, newest first."""
    rows = selectors.evaluation_list(team=request.actor.team)
    before = request.GET.get("before", "")
    if before.isdigit():
        rows = rows.filter(number__lt=int(before))
    page = list(rows.order_by("-number")[: PAGE + 1])
    context = {
        "lines": [selectors.list_line(evaluation) for evaluation in page[:PAGE]],
        "next_before": page[PAGE - 1].number if len(page) > PAGE else None,
        "may_run": can(request.actor, Permission.EVALUATION_RUN),
    }
    return render(request, "evaluations/evaluation_list.html", context)


@team_view
@require_http_methods(["GET", "POST"])
def evaluation_new(request: TeamRequest) -> HttpResponse:
    """Order an evaluation."""
    actor = request.actor
    check_can(actor, Permission.EVALUATION_RUN, team=actor.team)
    form = EvaluationForm(request.POST or None, team=actor.team, initial=pages.initial_from(request.GET))
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            evaluation = services.evaluation_start(actor=actor, **form.cleaned_data)
            return redirect_to(request, _address(request, evaluation))
    status = 422 if form.errors else 200
    return render(
        request, "evaluations/evaluation_new.html", {"form": form, **pages.order_context(actor.team)}, status=status
    )


@team_view
@require_GET
def evaluation_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    """Is there something to learn, and may we launch?"""
    evaluation = selectors.evaluation_get(team=request.actor.team, public_id=public_id)
    context = (
        pages.live_context(evaluation) | pages.chart_context(evaluation) | pages.side_context(evaluation, request.actor)
    )
    context |= pages.pivot_context(evaluation, request.GET.get("pivot", ""))
    return render(request, "evaluations/evaluation_detail.html", context)


@team_view
@require_GET
def evaluation_live(request: TeamRequest, public_id: str) -> HttpResponse:
    """Figures and verdict while it runs. Once it has ended, the page is asked to load itself again."""
    evaluation = selectors.evaluation_get(team=request.actor.team, public_id=public_id)
    response = render(request, "evaluations/_live.html", pages.live_context(evaluation))
    if evaluation.status not in selectors.ACTIVE:
        response["HX-Refresh"] = "true"
    return response


@team_view
@require_GET
def evaluation_charts(request: TeamRequest, public_id: str) -> HttpResponse:
    """Plot, tools and rewards, asked for less often."""
    evaluation = selectors.evaluation_get(team=request.actor.team, public_id=public_id)
    return render(request, "evaluations/_charts.html", pages.chart_context(evaluation))


@team_view
@require_POST
def evaluation_cancel(request: TeamRequest, public_id: str) -> HttpResponse:
    evaluation = selectors.evaluation_get(team=request.actor.team, public_id=public_id)
    services.evaluation_cancel(actor=request.actor, evaluation=evaluation)
    messages.success(request, f"Evaluation {evaluation.number} is cancelled; what had ended is kept.")
    return redirect_to(request, _address(request, evaluation))


@team_view
@require_GET
def evaluation_compare(request: TeamRequest) -> HttpResponse:
    """Two evaluations, item by item."""
    team = request.actor.team
    a, b = request.GET.get("a", ""), request.GET.get("b", "")
    try:
        first = selectors.evaluation_get(team=team, public_id=a) if a else None
        second = selectors.evaluation_get(team=team, public_id=b) if b else None
    except NotFound:
        first = second = None
    context = pages.compare_context(team, first, second)
    return render(request, "evaluations/evaluation_compare.html", context)


def _address(request: TeamRequest, evaluation) -> str:
    return reverse("evaluations:evaluation-detail", args=[request.actor.team.slug, evaluation.public_id])
