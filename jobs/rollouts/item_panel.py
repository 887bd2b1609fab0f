"""What an item's drawer shows of this floor: the newest rollouts of the item."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from datasets.selectors import item_list, version_get
from jobs.rollouts.models import Rollout
from rftstudio.core.errors import NotFound
from rftstudio.teams.views_helpers import TeamRequest, team_view

SHOWN = 12


@team_view
@require_GET
def item_panel(request: TeamRequest, public_id: str, position: int) -> HttpResponse:
    team = request.actor.team
    version = version_get(team=team, public_id=public_id)
    item = item_list(team=team, version=version).filter(position=position).first()
    if item is None:
        raise NotFound("There is nothing at this address.")
    rollouts = Rollout.objects.filter(team=team, item=item).select_related("batch").order_by("-id")
    context = {"item": item, "rollouts": list(rollouts.defer("grade", "extra")[:SHOWN]), "count": rollouts.count()}
    return render(request, "rollouts/_item_panel.html", context)
