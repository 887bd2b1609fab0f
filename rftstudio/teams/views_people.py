"""The browser's door to a team's people: members, invitations, service accounts, and the audit log."""

from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import login, logout
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from rftstudio.core.errors import Conflict, NotFound
from rftstudio.teams import selectors, services
from rftstudio.teams.exports import audit_csv
from rftstudio.teams.forms import ROLES, InviteForm, JoinForm, RoleForm, ServiceAccountForm
from rftstudio.teams.models import AuditEvent, User
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.sign_on import PASSWORD_BACKEND, sign_on_door
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

PAGE = 50


@never_cache  # the answer to a POST shows a link once
@team_view
@require_http_methods(["GET", "POST"])
def member_list(request: TeamRequest) -> HttpResponse:
    """Who may see and change what; owners invite here."""
    actor = request.actor
    form, link, mailed = InviteForm(request.POST or None), "", False
    if request.method == "POST":
        check_can(actor, Permission.TEAM_MANAGE, team=actor.team)
        if form.is_valid():
            with errors_on(form):
                invitation, token = services.member_invite(actor=actor, **form.cleaned_data)
                link = request.build_absolute_uri(reverse("teams:invitation-accept", args=[token]))
                mailed = services.invitation_send(invitation=invitation, link=link)
                form = InviteForm()
    may_manage = can(actor, Permission.TEAM_MANAGE)
    context = {
        "members": selectors.member_list(team=actor.team),
        "invitations": selectors.invitation_list(team=actor.team) if may_manage else [],
        "may_manage": may_manage,
        "two_factor": selectors.second_factor_ids(team=actor.team) if may_manage else set(),
        "form": form,
        "service_form": ServiceAccountForm(),
        "roles": ROLES,
        "link": link,
        "mailed": mailed,
    }
    return render(request, "teams/member_list.html", context, status=422 if form.errors else 200)


def _members(request: TeamRequest) -> HttpResponse:
    return redirect_to(request, reverse("teams:member-list", args=[request.actor.team.slug]))


@team_view
@require_POST
def member_role(request: TeamRequest, member_id: int) -> HttpResponse:
    membership = selectors.membership_get(team=request.actor.team, member_id=member_id)
    form = RoleForm(request.POST)
    role = form.cleaned_data["role"] if form.is_valid() else ""
    try:
        services.member_role_set(actor=request.actor, membership=membership, role=role)
        messages.success(request, f"{membership.user} is {role} now.")
    except Conflict as exc:
        messages.error(request, str(exc))
    return _members(request)


@team_view
@require_POST
def member_remove(request: TeamRequest, member_id: int) -> HttpResponse:
    membership = selectors.membership_get(team=request.actor.team, member_id=member_id)
    try:
        keys = services.member_remove(actor=request.actor, membership=membership)
        messages.success(request, f"{membership.user} is no longer a member. What they made stays.")
        if keys:
            words = (
                "One API key that they made still works" if keys == 1 else f"{keys} API keys that they made still work"
            )
            messages.warning(request, f"{words}. Revoke it on the page of keys if they knew it.")
    except Conflict as exc:
        messages.error(request, str(exc))
    return _members(request)


@team_view
@require_POST
def service_account_new(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.TEAM_MANAGE, team=request.actor.team)
    form = ServiceAccountForm(request.POST)
    if form.is_valid():
        made = services.service_account_create(actor=request.actor, **form.cleaned_data)
        messages.success(request, f"{made.user} is a service account now. Make a key for it on the page of keys.")
    else:
        messages.error(request, "A service account needs a name and a role.")
    return _members(request)


@team_view
@require_POST
def invitation_revoke(request: TeamRequest, public_id: str) -> HttpResponse:
    invitation = selectors.invitation_get(team=request.actor.team, public_id=public_id)
    services.invitation_revoke(actor=request.actor, invitation=invitation)
    messages.success(request, f"The link for {invitation.email} no longer works.")
    return _members(request)


@never_cache
@require_http_methods(["GET", "POST"])
def invitation_accept(request: HttpRequest, token: str) -> HttpResponse:
    """Join a team by link: with an account that is logged in, or by making one."""
    try:
        invitation = services.invitation_find(token=token)
    except NotFound as exc:
        raise Http404(exc.message) from exc
    has_account = User.objects.filter(email=invitation.email).exists()
    form = JoinForm(request.POST or None)
    context = {
        "invitation": invitation, "form": form, "has_account": has_account, "next": request.path,
        "sign_on": sign_on_door(),
    }  # fmt: skip
    if request.user.is_authenticated:
        return _join(request, invitation, token, context)
    if request.method == "POST" and not has_account and form.is_valid():
        with errors_on(form):
            data = form.cleaned_data
            membership = services.account_join(token=token, name=data["name"], password=data["password1"])
            login(request, membership.user, backend=PASSWORD_BACKEND)
            services.session_note(request)
            return redirect("teams:home", membership.team.slug)
    status = 422 if request.method == "POST" else 200
    return render(request, "teams/invitation_accept.html", context, status=status)


def _join(request: HttpRequest, invitation, token: str, context: dict) -> HttpResponse:
    if request.user.email != invitation.email:
        if request.POST.get("log_out"):
            logout(request)
            return redirect(request.path)
        return render(request, "teams/invitation_accept.html", context | {"is_other": True})
    if request.method == "POST":
        membership = services.invitation_accept(token=token, user=request.user)
        return redirect("teams:home", membership.team.slug)
    return render(request, "teams/invitation_accept.html", context)


# -- audit log --------------------------------------------------------------------------------------------------------


@team_view
@require_GET
def audit_list(request: TeamRequest) -> HttpResponse:
    """Every write, by whom and when."""
    check_can(request.actor, Permission.TEAM_MANAGE, team=request.actor.team)
    rows = selectors.audit_list(team=request.actor.team, query=request.GET)
    before = request.GET.get("before", "")
    if before.isascii() and before.isdigit():
        rows = rows.filter(id__lt=int(before[:18]))
    page = list(rows[: PAGE + 1])
    kept = {name: request.GET[name] for name in selectors.AUDIT_FILTERS if request.GET.get(name)}
    verbs = (
        AuditEvent.objects.filter(team=request.actor.team).order_by("verb").values_list("verb", flat=True).distinct()
    )
    context = {
        "events": page[:PAGE],
        "kept": kept,
        "verbs": list(verbs),
        "next_url": f"?{urlencode(kept | {'before': page[PAGE - 1].pk})}" if len(page) > PAGE else "",
        "csv_url": f"{reverse('teams:audit-export', args=[request.actor.team.slug])}?{urlencode(kept)}",
    }
    with timezone.override(request.actor.team.zone):
        return render(request, "teams/audit_list.html", context)


@team_view
@require_GET
def audit_export(request: TeamRequest) -> StreamingHttpResponse:
    check_can(request.actor, Permission.TEAM_MANAGE, team=request.actor.team)
    rows = selectors.audit_list(team=request.actor.team, query=request.GET).order_by("id")
    answer = StreamingHttpResponse(audit_csv(rows, request.actor.team.zone), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="audit-{request.actor.team.slug}.csv"'
    return answer
