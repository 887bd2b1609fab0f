"""Pages of re-grading: the box on a grader's page, the order form, a run with what changed."""

from decimal import Decimal, InvalidOperation
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from graders.selectors import grader_get, grader_version_newest
from graders.validation import is_costly
from jobs.rollouts import regrade, regrade_adopting
from jobs.rollouts import regrade_selectors as selectors
from jobs.rollouts.charts import regrade_histogram
from jobs.rollouts.models import RegradeRun, RolloutBatch
from jobs.rollouts.regrade_forms import RegradeForm
from rftstudio.core.errors import NotAllowed, NotFound, UserError
from rftstudio.core.money import show_usd
from rftstudio.core.show import show_count, show_reward
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

PANEL_RUNS = 8


@team_view
@require_GET
def regrade_panel(request: TeamRequest, public_id: str) -> HttpResponse:
    """Runs with a grader's versions, for the grader's own page, which asks for it by address."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    context = {
        "grader": grader,
        "newest": grader_version_newest(grader=grader),
        "runs": selectors.regrades_of(team=request.actor.team, grader=grader)[:PANEL_RUNS],
        "can_run": can(request.actor, Permission.EVALUATION_RUN),
    }
    return render(request, "rollouts/_regrade_panel.html", context)


@team_view
@require_http_methods(["GET", "POST"])
def regrade_new(request: TeamRequest, public_id: str) -> HttpResponse:
    """Choose rollouts for a grader version. `?source=` ticks what begins with it."""
    team = request.actor.team
    check_can(request.actor, Permission.EVALUATION_RUN, team=team)
    version = selectors.version_get(team=team, public_id=public_id)
    sources = selectors.sources_of(team=team)
    asked = request.GET.get("source", "")
    ticked = [source.key for source in sources if asked and asked in source.key]
    data = request.POST if request.method == "POST" else None
    form = RegradeForm(data, sources=sources, initial={"sources": ticked})
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            run = regrade.regrade_start(
                actor=request.actor,
                grader_version=version,
                batches=selectors.batches_of(team=team, keys=form.cleaned_data["sources"]),
                max_rollouts=form.cleaned_data["max_rollouts"],
                cap_usd=form.cleaned_data["cap_usd"],
            )
            return redirect_to(request, _url(request, run))
    context = {"form": form, "version": version, "sources": sources, "is_costly": is_costly(version.config)}
    context["ticked"] = form["sources"].value() or []
    return render(request, "rollouts/regrade_new.html", context, status=422 if form.errors else 200)


@team_view
@require_GET
def regrade_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    """A run; htmx asks for its body alone while it is at work."""
    run = selectors.regrade_get(team=request.actor.team, public_id=public_id)
    template = "rollouts/_regrade.html" if request.htmx else "rollouts/regrade_detail.html"
    return render(request, template, _context(request, run))


def _context(request: TeamRequest, run: RegradeRun) -> dict[str, Any]:
    counts = selectors.regrade_counts(run)
    is_active = run.status in selectors.ACTIVE
    context = {
        "run": run,
        "counts": counts,
        "is_active": is_active,
        "figures": _figures(run, counts),
        "can_run": can(request.actor, Permission.EVALUATION_RUN),
        "is_open": is_active or run.status == RegradeRun.Status.PAUSED,
    }
    if not is_active and counts.done:
        rewards = selectors.regrade_rewards(run)
        batches = regrade_adopting.adoptable(run)
        context |= {
            "figure": regrade_histogram(rewards, before=run.graded_before, pass_mark=run.grader_version.pass_threshold),
            "changed": selectors.regrade_changed(run),
            "adoptable": batches,
            "has_training": run.batches.exclude(kind=RolloutBatch.Kind.EVALUATION).exists(),
        }
    return context


def _figures(run: RegradeRun, counts: selectors.Counts) -> list[dict[str, str]]:
    moved = f"{show_count(counts.up)} up, {show_count(counts.down)} down"
    figures = [
        {"label": "Mean before", "value": show_reward(counts.old_mean), "note": "of those graded both times"},
        {"label": "Mean now", "value": show_reward(counts.mean), "note": str(run.grader_version)},
        {"label": "Rewards that changed", "value": show_count(counts.changed), "note": moved},
        {
            "label": "Ungraded now",
            "value": show_count(counts.ungraded),
            "note": f"{show_count(counts.newly_ungraded)} had a reward, {show_count(counts.newly_graded)} got one",
        },
    ]
    if is_costly(run.grader_version.config):
        cap = f"of {show_usd(run.cap_usd)} allowed" if run.cap_usd is not None else "no limit was set"
        figures.append({"label": "Paid to judges", "value": show_usd(counts.spent), "note": cap})
    return figures


@team_view
@require_POST
def regrade_cancel(request: TeamRequest, public_id: str) -> HttpResponse:
    run = selectors.regrade_get(team=request.actor.team, public_id=public_id)
    _do(request, lambda: regrade.regrade_cancel(actor=request.actor, run=run), "Cancelled. What was graded stays here.")
    return redirect_to(request, _url(request, run))


@team_view
@require_POST
def regrade_resume(request: TeamRequest, public_id: str) -> HttpResponse:
    """Go on under another limit; an empty field lifts it."""
    run = selectors.regrade_get(team=request.actor.team, public_id=public_id)
    try:
        cap = _dollars(request.POST.get("cap_usd", ""))
    except InvalidOperation:
        messages.error(request, "That is no sum. Write dollars as 12 or 12.50, or leave the field empty.")
    else:
        _do(request, lambda: regrade.regrade_resume(actor=request.actor, run=run, cap_usd=cap), "It goes on.")
    return redirect_to(request, _url(request, run))


def _dollars(text: str) -> Decimal | None:
    if not text.strip():
        return None
    value = Decimal(text.strip())
    if not value.is_finite() or value >= Decimal("1e10"):
        raise InvalidOperation
    return value.quantize(Decimal("0.01"))


@team_view
@require_POST
def regrade_adopt(request: TeamRequest, public_id: str) -> HttpResponse:
    run = selectors.regrade_get(team=request.actor.team, public_id=public_id)
    said = "The new rewards count now. The evaluation sums up anew within some seconds."
    _do(request, lambda: regrade_adopting.regrade_adopt(actor=request.actor, run=run), said)
    return redirect_to(request, _url(request, run))


def _do(request: TeamRequest, work: Any, said: str) -> None:
    """Do it and say so; what a person can mend is told on the page they come back to."""
    try:
        work()
    except (NotAllowed, NotFound):
        raise
    except UserError as exc:
        messages.error(request, str(exc))
    else:
        messages.success(request, said)


def _url(request: TeamRequest, run: RegradeRun) -> str:
    return reverse("rollouts:regrade-detail", args=[request.actor.team.slug, run.public_id])
