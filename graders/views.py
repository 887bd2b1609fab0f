"""Pages that make, edit and publish graders."""

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from graders import services
from graders.forms import config_changed, config_from, starter
from graders.kinds.registry import KINDS
from graders.live_test import live_test_context
from graders.models import Grader
from graders.pages import editor_context, editor_of
from graders.recipe_files import read_recipe
from graders.sandbox import active_layers
from graders.sandbox_modules import COMMON, ON_REQUEST
from graders.secrets import shown_config
from graders.selectors import grader_get, grader_version_list
from graders.selectors import grader_list as graders_of
from graders.starting import starting_points
from rftstudio.core.errors import UserError
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view


class NewGraderForm(forms.Form):
    """What a new grader starts from: a starting point, a kind, or a recipe that was copied from elsewhere."""

    name = forms.CharField(label="Name", max_length=120, required=False)
    start = forms.CharField(required=False)
    recipe = forms.CharField(label="Recipe as JSON", required=False, widget=forms.Textarea)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("recipe", "").strip():
            config, problems = read_recipe(data["recipe"])
            if problems:
                self.add_error("recipe", f"{problems[0].message} {problems[0].fix}")
            elif not isinstance(config, dict):
                self.add_error("recipe", "A grader is a JSON object in braces.")
            else:
                data["config"] = config
                data["name"] = data.get("name") or str(config.get("name") or "")
        else:
            data["config"], title = _start_of(data.get("start", ""))
            data["started_from"] = data["start"] if data.get("start") in starting_points() else ""
            data["name"] = data.get("name") or title
        if not data.get("name") and not self.errors:
            self.add_error("name", "Say what it rewards.")
        return data


def _start_of(start: str) -> tuple[dict[str, Any], str]:
    if point := starting_points().get(start):
        return point.config, point.title
    kind = start if start in KINDS else "string_check"
    return starter(kind), ""


@team_view
@require_GET
def grader_list(request: TeamRequest) -> HttpResponse:
    """All graders of the team."""
    rows = graders_of(team=request.actor.team)
    graders = [
        {
            "row": row,
            "kind": KINDS.get(str(row.draft.get("type"))),
            "newest": next(iter(row.versions.all()), None),
            "parts": len(row.draft["graders"]) if isinstance(row.draft.get("graders"), dict) else 0,
        }
        for row in rows[:500]
    ]
    context = {"graders": graders, "can_edit": can(request.actor, Permission.GRADER_EDIT)}
    return render(request, "graders/grader_list.html", context)


@team_view
@require_http_methods(["GET", "POST"])
def grader_new(request: TeamRequest) -> HttpResponse:
    """Start from a starting point, a kind or a copied recipe."""
    check_can(request.actor, Permission.GRADER_EDIT, team=request.actor.team)
    form = NewGraderForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            grader = services.grader_create(
                actor=request.actor,
                name=form.cleaned_data["name"],
                config=form.cleaned_data["config"],
                started_from=form.cleaned_data.get("started_from", ""),
            )
            return redirect_to(request, _url(request, grader))
    context = {"form": form, "points": list(starting_points().values()), "kinds": KINDS.values()}
    return render(request, "graders/grader_new.html", context, status=422 if form.errors else 200)


@team_view
@require_http_methods(["GET", "POST"])
def grader_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    """The form of the draft. A POST saves it, after what its button asks for."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    dataset = request.POST.get("dataset") or request.GET.get("dataset", "")
    if request.method == "POST":
        config = config_changed(config_from(request.POST), request.POST.get("do", ""))
        services.grader_draft_save(
            actor=request.actor, grader=grader, config=config, name=request.POST.get("g-name", "")
        )
        if not request.POST.get("do"):
            messages.success(request, "Draft saved.")
        return redirect_to(request, _url(request, grader, dataset=dataset))
    editor = editor_of(grader, grader.draft, dataset=dataset)
    context = {**editor_context(request, editor, "detail"), **live_test_context(request, editor, request.GET)}
    return render(request, "graders/grader_detail.html", context)


@team_view
@require_http_methods(["GET", "POST"])
def grader_json(request: TeamRequest, public_id: str) -> HttpResponse:
    """The same draft as JSON."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    text, wrong = "", ""
    if request.method == "POST":
        check_can(request.actor, Permission.GRADER_EDIT, team=grader.team)
        text = request.POST.get("recipe", "")
        config, problems = read_recipe(text)
        if problems:
            wrong = f"{problems[0].message} {problems[0].fix}"
        else:
            try:
                services.grader_draft_save(actor=request.actor, grader=grader, config=config)
            except UserError as exc:
                wrong = str(exc)
            else:
                messages.success(request, "Draft saved.")
                return redirect_to(request, _url(request, grader, "grader-json"))
    editor = editor_of(grader, grader.draft, dataset=request.GET.get("dataset", ""))
    context = editor_context(request, editor, "json")
    context |= {"text": text or json.dumps(context["config"], ensure_ascii=False, indent=2), "wrong": wrong}
    return render(request, "graders/grader_json.html", context, status=422 if wrong else 200)


@team_view
@require_POST
def grader_publish(request: TeamRequest, public_id: str) -> HttpResponse:
    """Freeze the draft as the next version."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    try:
        version = services.grader_version_publish(actor=request.actor, grader=grader, note=request.POST.get("note", ""))
    except services.GraderRefused as exc:
        messages.error(request, f"Not published. {exc}")
        return redirect_to(request, _url(request, grader))
    messages.success(request, f"Version {version.number} is published. What ran before keeps its own version.")
    return redirect_to(request, _url(request, grader, "grader-versions"))


@team_view
@require_POST
def grader_discard(request: TeamRequest, public_id: str) -> HttpResponse:
    """Back to the published version."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    services.grader_draft_discard(actor=request.actor, grader=grader)
    messages.success(request, "The draft was thrown away.")
    return redirect_to(request, _url(request, grader))


@team_view
@require_GET
def grader_versions(request: TeamRequest, public_id: str) -> HttpResponse:
    """Every published version with its recipe."""
    grader = grader_get(team=request.actor.team, public_id=public_id)
    editor = editor_of(grader, grader.draft, dataset=request.GET.get("dataset", ""))
    versions = [
        {"row": row, "config": shown_config(row.config), "kind": KINDS.get(str(row.config.get("type")))}
        for row in grader_version_list(team=grader.team, grader=grader)[:200]
    ]
    context = {**editor_context(request, editor, "versions"), "published": versions}
    return render(request, "graders/grader_versions.html", context)


@team_view
@require_GET
def sandbox_page(request: TeamRequest) -> HttpResponse:
    """What confines user Python on this machine, and what it may import."""
    layers = active_layers()
    context = {"layers": layers, "landlock_text": str(layers.get("landlock", "")), "common": COMMON}
    context["on_request"] = ON_REQUEST
    return render(request, "graders/sandbox.html", context)


def _url(request: TeamRequest, grader: Grader, name: str = "grader-detail", dataset: str = "") -> str:
    url = reverse(f"graders:{name}", args=[request.actor.team.slug, grader.public_id])
    return f"{url}?dataset={dataset}" if dataset else url
