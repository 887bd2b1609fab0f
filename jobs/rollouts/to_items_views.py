"""The page that makes items of rollouts: of one, or of those that the search in the address finds."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from datasets.models import Dataset
from datasets.row_checks import question_of
from jobs.rollouts import filters as filtering
from jobs.rollouts.models import Rollout
from jobs.rollouts.to_items import ANSWERS, MOST, items_of, rollouts_to_items
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

SHOWN = 5


class ItemsForm(forms.Form):
    """Where the items go, and what becomes their reference."""

    dataset = forms.ModelChoiceField(
        Dataset.objects.none(), required=False, to_field_name="public_id", label="Dataset",
        empty_label="a new dataset, named below", help_text="A frozen version stays as it is; a new one grows from it.",
    )  # fmt: skip
    name = forms.CharField(max_length=120, required=False, label="Name of the new dataset")
    answers = forms.ChoiceField(
        choices=list(ANSWERS.items()), required=False, label="Reference answer",
        help_text="Only for items that have none. A reference that no person has read is a guess.",
    )  # fmt: skip

    def __init__(self, *args: Any, team: Team, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["dataset"].queryset = Dataset.objects.filter(team=team).order_by("name")

    def clean(self) -> dict[str, Any]:
        values = super().clean()
        if not values.get("dataset") and not (values.get("name") or "").strip():
            self.add_error("name", "Name the new dataset, or choose one that exists.")
        return values


@team_view
@require_http_methods(["GET", "POST"])
def rollout_items(request: TeamRequest) -> HttpResponse:
    team = request.actor.team
    check_can(request.actor, Permission.DATASET_EDIT, team=team)
    rollouts = rollouts_chosen(request)
    form = ItemsForm(request.POST if request.method == "POST" else None, team=team)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            change = rollouts_to_items(actor=request.actor, rollouts=rollouts, **form.cleaned_data)
            messages.success(request, f"{change.count:,} items are in the draft. History can take them back.")
            return redirect_to(request, reverse("datasets:version-detail", args=[team.slug, change.version.public_id]))
    rows = items_of(rollouts)
    context = {
        "form": form,
        "rollout_count": min(rollouts.count(), MOST),
        "is_cut": rollouts.order_by()[: MOST + 1].count() > MOST,
        "item_count": len(rows),
        "questions": [question_of(row)[:300] for row in rows[:SHOWN]],
        "most": MOST,
    }
    return render(request, "rollouts/rollout_items.html", context, status=422 if form.errors else 200)


def rollouts_chosen(request: TeamRequest) -> QuerySet[Rollout]:
    """One rollout that is named, or what the filters find."""
    team, public_id = request.actor.team, request.GET.get("rollout")
    if not public_id:
        return filtering.rows(team=team, filters=filtering.filters_from(request.GET))
    found = Rollout.objects.filter(team=team, public_id=public_id)
    if not found.exists():
        raise NotFound("There is nothing at this address.")
    return found
