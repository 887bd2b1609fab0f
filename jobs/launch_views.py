"""The browser's door to the launch page."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from jobs import demonstrations, drafts, launch_pages, selectors, services
from jobs.evaluations import selectors as evaluation_selectors
from jobs.evaluations.models import Evaluation
from jobs.forms import LaunchForm
from jobs.models import Checkpoint, Job, LaunchDraft
from jobs.starts import Start
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
    if request.method == "POST":
        return _told(request, baseline, source)
    if source and not request.GET.get("baseline"):
        baseline = evaluation_selectors.evaluation_get(team=actor.team, public_id=source.baseline.public_id)
    sources = demonstrations.sources(baseline)
    start = launch_pages.start_from(request.GET, baseline, source, sources)
    return _page(request, baseline, LaunchForm(initial=start.values, sources=sources), start=start)


def _told(request: TeamRequest, baseline: Evaluation, source: Job | None) -> HttpResponse:
    """The form came back: to be launched, put aside, priced again, or with its third section as it was at first."""
    then = request.POST.get("then", "launch")
    sources = demonstrations.sources(baseline)
    must_read = then == "launch" and launch_pages.has_warnings(
        baseline, request.POST.get("backend", ""), request.POST.get("method", "")
    )
    start = launch_pages.start_from(request.GET, baseline, source, sources)
    form = LaunchForm(request.POST, initial=start.values, must_read=must_read, sources=sources)
    if then == "save":
        return _saved(request, baseline, form)
    if then == "start":
        form = LaunchForm(form.started_anew(), initial=start.values, sources=sources)
    elif then != "price" and form.is_valid():
        with errors_on(form):
            data = form.cleaned_data
            job = services.job_launch(
                actor=request.actor, baseline=baseline, plan=form.plan, seed=data["seed"], backend=data["backend"],
                name=data["name"], launch_key=data["launch_key"], override=data["override"], method=form.chosen_method,
                demonstrations=form.choice,
            )  # fmt: skip
            return redirect_to(request, reverse("jobs:job-detail", args=[request.actor.team.slug, job.public_id]))
    return _page(request, baseline, form, draft=_draft_of(request), start=start)


def _saved(request: TeamRequest, baseline: Evaluation, form: LaunchForm) -> HttpResponse:
    key = request.POST.get("launch_key", "")
    with errors_on(form):
        draft = services.draft_save(actor=request.actor, baseline=baseline, values=form.kept, launch_key=key)
        messages.success(request, "Saved as a draft. No money is held for it.")
        return redirect_to(request, reverse("jobs:draft-open", args=[request.actor.team.slug, draft.public_id]))
    return _page(request, baseline, form, draft=_draft_of(request))


def _draft_of(request: TeamRequest) -> LaunchDraft | None:
    return drafts.draft_find(team=request.actor.team, launch_key=request.POST.get("launch_key", ""))


def _page(
    request: TeamRequest, baseline: Evaluation, form: LaunchForm, *, draft: LaunchDraft | None = None,
    start: Start | None = None, status: int | None = None,
) -> HttpResponse:  # fmt: skip
    context = launch_pages.launch_context(baseline, form, request.actor, draft=draft, start=start)
    return render(request, "jobs/job_new.html", context, status=status or (422 if form.errors else 200))


@team_view
@require_GET
def draft_open(request: TeamRequest, public_id: str) -> HttpResponse:
    """A draft as it was left; what is wrong with it is said at its fields."""
    actor = request.actor
    check_can(actor, Permission.JOB_LAUNCH, team=actor.team)
    draft = drafts.draft_get(team=actor.team, public_id=public_id)
    baseline = draft.baseline if draft.baseline and not request.GET.get("baseline") else _baseline_of(request)
    if baseline is None:
        return render(request, "jobs/job_new_empty.html", {"draft": draft})
    sources = demonstrations.sources(baseline)
    start = launch_pages.start_from(request.GET, baseline, None, sources)
    plain = LaunchForm(initial=start.values, sources=sources)
    form = LaunchForm(plain.opened(draft.values, draft.launch_key), initial=start.values, sources=sources)
    return _page(request, baseline, form, draft=draft, status=200)


@team_view
@require_POST
def draft_delete(request: TeamRequest, public_id: str) -> HttpResponse:
    draft = drafts.draft_get(team=request.actor.team, public_id=public_id)
    services.draft_delete(actor=request.actor, draft=draft)
    messages.success(request, "The draft is deleted.")
    return redirect_to(request, reverse("jobs:job-list", args=[request.actor.team.slug]))


@team_view
@require_GET
def job_estimate(request: TeamRequest) -> HttpResponse:
    """Derived numbers, estimate and readiness for what the form holds now."""
    check_can(request.actor, Permission.JOB_LAUNCH, team=request.actor.team)
    baseline = _baseline_of(request)
    if baseline is None:
        raise NotFound("There is no finished baseline.")
    form = LaunchForm(request.GET, sources=demonstrations.sources(baseline))
    context = launch_pages.estimate_context(baseline, form, request.actor)
    return render(request, "jobs/_estimate.html", context | {"is_alone": True})
