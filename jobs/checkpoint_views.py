"""The browser's door to checkpoints: evaluate, try beside the base, promote, download, delete, expire."""

from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from jobs import playground, selectors, services
from jobs.models import Checkpoint
from rftstudio.core.errors import UserError
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, redirect_to, team_view


class ExpiryForm(forms.Form):
    """In how many days; empty keeps it."""

    days = forms.IntegerField(required=False)


def _checkpoint(request: TeamRequest, public_id: str) -> Checkpoint:
    return selectors.checkpoint_get(team=request.actor.team, public_id=public_id)


def _to_job(request: TeamRequest, checkpoint: Checkpoint) -> HttpResponse:
    return redirect_to(request, reverse("jobs:job-detail", args=[request.actor.team.slug, checkpoint.job.public_id]))


@team_view
@require_POST
def checkpoint_evaluate(request: TeamRequest, public_id: str) -> HttpResponse:
    """Publish a checkpoint and measure it exactly as its baseline was measured."""
    team, checkpoint = request.actor.team, _checkpoint(request, public_id)
    evaluation = services.checkpoint_evaluate(actor=request.actor, checkpoint=checkpoint)
    return redirect_to(request, reverse("evaluations:evaluation-detail", args=[team.slug, evaluation.public_id]))


@team_view
@require_POST
def checkpoint_promote(request: TeamRequest, public_id: str) -> HttpResponse:
    """The agent's next version answers with it."""
    actor = request.actor
    version = services.checkpoint_promote(actor=actor, checkpoint=_checkpoint(request, public_id))
    messages.success(request, f"{version} answers with this checkpoint.")
    return redirect_to(request, reverse("agents:agent-detail", args=[actor.team.slug, version.agent.public_id]))


@team_view
@require_POST
def checkpoint_download(request: TeamRequest, public_id: str) -> StreamingHttpResponse:
    """A tar archive, read as it is sent. POST, because it is noted in the audit log."""
    name, parts = services.checkpoint_download(actor=request.actor, checkpoint=_checkpoint(request, public_id))
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingHttpResponse(parts, content_type="application/x-tar", headers=headers)


@team_view
@require_POST
def checkpoint_delete(request: TeamRequest, public_id: str) -> HttpResponse:
    checkpoint = _checkpoint(request, public_id)
    services.checkpoint_delete(actor=request.actor, checkpoint=checkpoint)
    messages.success(request, f"The checkpoint of train step {checkpoint.step_number} is deleted.")
    return _to_job(request, checkpoint)


@team_view
@require_POST
def checkpoint_expiry(request: TeamRequest, public_id: str) -> HttpResponse:
    checkpoint, form = _checkpoint(request, public_id), ExpiryForm(request.POST)
    if not form.is_valid():
        raise UserError("The days must be a whole number.", where="days", fix="Write a number, or nothing to keep it.")
    days = form.cleaned_data["days"]
    services.checkpoint_expiry_set(actor=request.actor, checkpoint=checkpoint, days=days)
    messages.success(request, f"It is deleted in {days} days unless it is served." if days else "It is kept.")
    return _to_job(request, checkpoint)


@team_view
@require_http_methods(["GET", "POST"])
def checkpoint_try(request: TeamRequest, public_id: str) -> HttpResponse:
    """Base and tuned on one item, side by side: choose the item, then let both try it for real."""
    actor, checkpoint = request.actor, _checkpoint(request, public_id)
    check_can(actor, Permission.VIEW, team=checkpoint.team)
    if request.method == "POST":
        key = request.POST.get("item", "")
        source = playground.try_start(actor=actor, checkpoint=checkpoint, item_key=key)
        address = reverse("jobs:checkpoint-try", args=[actor.team.slug, checkpoint.public_id])
        return redirect_to(request, f"{address}?{urlencode({'item': key, 'run': source})}")
    source = request.GET.get("run", "")
    result = playground.result_context(actor.team, checkpoint, source) if source else {}
    if result and request.htmx:
        return render(request, "jobs/_try_result.html", result)
    item = playground.item_of(checkpoint, request.GET.get("item", ""))
    may = can(actor, Permission.EVALUATION_RUN) and can(actor, Permission.JOB_LAUNCH)
    context = playground.page_context(checkpoint, item) | {"may_try": may, **result}
    return render(request, "jobs/checkpoint_try.html", context)
