"""Team home, keys, theme."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from rftstudio.core.errors import UserError
from rftstudio.teams import selectors, services
from rftstudio.teams.forms import ApiKeyForm
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, team_view


@login_required
@require_GET
def home_redirect(request: HttpRequest) -> HttpResponse:
    team = selectors.home_team_get(user=request.user)
    if team is None:
        return render(request, "teams/no_team.html")
    return redirect("teams:home", team.slug)


@team_view
@require_GET
def home(request: TeamRequest) -> HttpResponse:
    return render(request, "teams/home.html", {"members": len(selectors.member_list(team=request.actor.team))})


@never_cache  # the answer to a POST shows a secret once
@team_view
@require_http_methods(["GET", "POST"])
def key_list(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.VIEW, team=request.actor.team)
    accounts = selectors.service_account_list(team=request.actor.team)
    form = ApiKeyForm(request.POST or None, accounts=accounts)
    secret = ""
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            _, secret = services.api_key_create(actor=request.actor, **form.cleaned_data)
            form = ApiKeyForm(accounts=accounts)
    context = {
        "form": form,
        "keys": selectors.api_key_list(team=request.actor.team),
        "secret": secret,
        "can_manage": can(request.actor, Permission.KEY_MANAGE),
    }
    return render(request, "teams/key_list.html", context, status=422 if form.errors else 200)


@team_view
@require_POST
def key_revoke(request: TeamRequest, public_id: str) -> HttpResponse:
    key = selectors.api_key_get(team=request.actor.team, public_id=public_id)
    services.api_key_revoke(actor=request.actor, key=key)
    messages.success(request, f"The key {key.name} no longer works.")
    return redirect("teams:key-list", request.actor.team.slug)


@login_required
@require_POST
def theme_set(request: HttpRequest) -> HttpResponse:
    try:
        services.theme_set(user=request.user, theme=request.POST.get("theme", ""))
    except UserError as exc:
        return render(request, "error.html", {"error": exc}, status=exc.status)
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure()):
        target = reverse("teams:home-redirect")
    return HttpResponseRedirect(target)
