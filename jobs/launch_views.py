"""The browser's door to the launch page."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from jobs import demonstrations, launch_pages, selectors, services
from jobs.evaluations import selectors as evaluation_selectors
from jobs.evaluations.models import Evaluation
from jobs.forms import LaunchForm
from jobs.models import Checkpoint
from rftstudio.core.errors import NotFound
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view


def _baseline_of(request: TeamRequest) -> Evaluation | None:
    """The evaluation named in the address, else the newest finished one that did not measure what a job made."""
    wanted = request.GET.get("baseline") or request.POST.get("baseline")
    if wanted:
        return evaluation_selectors.evaluation_get(team=request.actor.team, public_id=wanted)
    tuned = Checkpoint.objects.filter(job__team=request.actor.team, model__isnull=False).values("model")
    finished = selectors.baseline_list(team=request.actor.team)
    return finished.exclude(model__in=tuned).first() or finished.first()


@team_view
@require_http_methods(["GET", "POST"])
def job_new(request: TeamRequest) -> HttpResponse:
    """What will happen, what may it cost, when does it stop?"""
    actor = request.actor
    check_can(actor, Permission.JOB_LAUNCH, team=actor.team)
    baseline = _baseline_of(request)
    if baseline is None:
        return render(request, "jobs/job_new_empty.html", {})
    source = selectors.job_get(team=actor.team, public_id=request.GET["clone"]) if request.GET.get("clone") else None
    must_read = launch_pages.has_warnings(baseline, request.POST.get("backend", ""), request.POST.get("method", ""))
    form = LaunchForm(
        request.POST or None, initial=launch_pages.initial_from(request.GET, source), must_read=must_read,
        sources=demonstrations.sources(baseline),
    )  # fmt: skip
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            data = form.cleaned_data
            job = services.job_launch(
                actor=actor, baseline=baseline, plan=form.plan, seed=data["seed"], backend=data["backend"],
                name=data["name"], launch_key=data["launch_key"], override=data["override"], method=form.chosen_method,
                demonstrations=form.choice,
            )  # fmt: skip
            return redirect_to(request, reverse("jobs:job-detail", args=[actor.team.slug, job.public_id]))
    context = launch_pages.launch_context(baseline, form, actor) | {"baselines": _choices(request)}
    return render(request, "jobs/job_new.html", context, status=422 if form.errors else 200)


def _choices(request: TeamRequest) -> list[tuple[Evaluation, str]]:
    return [
        (one, f"Baseline {one.number}, {one.agent_version}, {one.policy_label}")
        for one in selectors.baseline_list(team=request.actor.team)[:30]
    ]


@team_view
@require_GET
def job_estimate(request: TeamRequest) -> HttpResponse:
    """Derived numbers, estimate and readiness for what the form holds now."""
    check_can(request.actor, Permission.JOB_LAUNCH, team=request.actor.team)
    baseline = _baseline_of(request)
    if baseline is None:
        raise NotFound("There is no finished baseline.")
    form = LaunchForm(request.GET, sources=demonstrations.sources(baseline))
    return render(request, "jobs/_estimate.html", launch_pages.estimate_context(baseline, form, request.actor))
