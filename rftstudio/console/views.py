"""Decisions of an administrator from the console's front page; each is one service, in their own name."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from rftstudio.core.errors import StudioError
from rftstudio.core.show import show_money
from rftstudio.teams.models import Team
from rftstudio.usage import services
from rftstudio.usage.models import Approval

_VERBS = {"approve": services.approval_approve, "decline": services.approval_decline}


@require_POST
def approval_decide(request: HttpRequest, public_id: str, verb: str) -> HttpResponse:
    approval = get_object_or_404(Approval.objects.select_related("team"), public_id=public_id)
    service = _VERBS.get(verb)
    if service is None:
        return redirect("admin:index")
    try:
        actor = services.staff_actor(approval.team, request.user)
        service(actor=actor, approval=approval, reason=request.POST.get("reason", ""))
        messages.success(request, f"{approval.label} of {approval.team}: {show_money(approval.amount_usd)} {verb}d.")
    except StudioError as exc:
        messages.error(request, str(exc))
    return redirect("admin:index")


@require_POST
def stop_set(request: HttpRequest) -> HttpResponse:
    """Stop or open spending, for one team or for all."""
    slug = request.POST.get("team", "")
    team = get_object_or_404(Team, slug=slug) if slug else None
    is_on = request.POST.get("is_on") == "1"
    try:
        services.stop_set(user=request.user, team=team, is_on=is_on, reason=request.POST.get("reason", ""))
        whose = str(team) if team else "all teams"
        messages.success(request, f"Spending of {whose} is {'stopped' if is_on else 'open'}.")
    except StudioError as exc:
        messages.error(request, str(exc))
    return redirect("admin:index")
