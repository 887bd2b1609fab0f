"""Money in the top bar of each page, for those who may see it. Asked for only when the page draws it."""

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from rftstudio.teams.permissions import Permission, can
from rftstudio.usage import selectors


def money_context(request: HttpRequest) -> dict:
    actor = getattr(request, "actor", None)
    if actor is None or getattr(request, "htmx", False) or not can(actor, Permission.COST_VIEW):
        return {}
    return {
        "budget": SimpleLazyObject(lambda: selectors.budget_get(team=actor.team)),
        "spending_stopped": SimpleLazyObject(lambda: selectors.stopped_by(team=actor.team)),
    }
