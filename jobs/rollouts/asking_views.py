"""The page that queues rollouts for people."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from jobs.rollouts import regrade_selectors as selectors
from jobs.rollouts.asking import MOST, QUESTIONS, rollouts_ask
from jobs.rollouts.to_items_views import rollouts_chosen
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

SEARCH = "search"


class AskForm(forms.Form):
    """Which rollouts, how many, what is asked, of how many people."""

    source = forms.ChoiceField(label="Rollouts of", help_text="They are drawn evenly over the rewards.")
    count = forms.IntegerField(label="How many", initial=40, min_value=1, max_value=MOST)
    question = forms.ChoiceField(label="Question", choices=[(key, title) for key, (title, _) in QUESTIONS.items()])
    overlap = forms.IntegerField(
        label="People for each", initial=1, min_value=1, max_value=20, help_text="Two or more measure agreement."
    )

    def __init__(self, *args, sources: list[selectors.Source], found: int, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        choices = [(each.key, f"{each.title} ({each.rollouts:,})") for each in sources]
        self.fields["source"].choices = (
            [(SEARCH, f"The search you come from ({found:,})"), *choices] if found else choices
        )
        self.fields["count"].initial = min(found, 40) or 40


@team_view
@require_http_methods(["GET", "POST"])
def rollout_ask(request: TeamRequest) -> HttpResponse:
    """Order a label task over rollouts."""
    team = request.actor.team
    check_can(request.actor, Permission.DATASET_EDIT, team=team)
    sources = [source for source in selectors.sources_of(team=team) if source.rollouts]
    among = rollouts_chosen(request) if request.GET else None
    found = among.order_by()[:MOST].count() if among is not None else 0
    form = AskForm(request.POST if request.method == "POST" else None, sources=sources, found=found)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        with errors_on(form):
            task = rollouts_ask(
                actor=request.actor,
                batches=selectors.batches_of(team=team, keys=[data["source"]]) if data["source"] != SEARCH else (),
                among=among if data["source"] == SEARCH else None,
                count=data["count"],
                question=data["question"],
                overlap=data["overlap"],
            )
            messages.success(request, "The rollouts are queued. People see them without their rewards.")
            return redirect_to(request, reverse("labels:task-detail", args=[team.slug, task.public_id]))
    return render(
        request,
        "rollouts/rollout_ask.html",
        {"form": form, "sources": sources or found},
        status=422 if form.errors else 200,
    )
