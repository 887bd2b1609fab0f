"""The browser's door to money: where it goes, who is near a limit, what waits for an owner."""

from collections.abc import Callable
from functools import wraps

from django.contrib import messages
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from rftstudio.core.errors import Conflict, NotFound, UserError
from rftstudio.core.show import show_money
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view
from rftstudio.usage import exports, pages, periods, quotas, reports, selectors, services
from rftstudio.usage.forms import CorrectionForm, DecisionForm, MonthForm, QuotaForm, TimeZoneForm
from rftstudio.usage.models import LedgerLine, Quota

PAGE = 50


def money_view(permission: Permission) -> Callable:
    """A team page for those with the right; its times are told in the team's own time zone."""

    def decorate(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        @team_view
        @wraps(view)
        def inner(request: TeamRequest, *args, **kwargs) -> HttpResponse:
            check_can(request.actor, permission, team=request.actor.team)
            with timezone.override(periods.zone_of(request.actor.team)):
                return view(request, *args, **kwargs)

        return inner

    return decorate


@money_view(Permission.COST_VIEW)
@require_GET
def cost_list(request: TeamRequest) -> HttpResponse:
    """Where does the money go, who is near a limit, what waits for me?"""
    return render(request, "usage/cost_list.html", pages.cost_context(request.actor, request.GET))


@money_view(Permission.COST_VIEW)
@require_GET
def cost_spend(request: TeamRequest) -> HttpResponse:
    """Chart and table by day; asked for on load and when regrouped."""
    return render(request, "usage/_spend.html", pages.spend_context(request.actor, request.GET))


@money_view(Permission.BUDGET_APPROVE)
@require_GET
def approval_list(request: TeamRequest) -> HttpResponse:
    return render(request, "usage/_approvals.html", pages.approvals_context(request.actor))


@money_view(Permission.BUDGET_APPROVE)
@require_POST
def approval_approve(request: TeamRequest, public_id: str) -> HttpResponse:
    return _decide(request, public_id, services.approval_approve, "approved")


@money_view(Permission.BUDGET_APPROVE)
@require_POST
def approval_decline(request: TeamRequest, public_id: str) -> HttpResponse:
    return _decide(request, public_id, services.approval_decline, "declined")


def _decide(request: TeamRequest, public_id: str, service: Callable, word: str) -> HttpResponse:
    """Decide, or ask for what is missing on a page of its own."""
    approval = selectors.approval_get(team=request.actor.team, public_id=public_id)
    form = DecisionForm(request.POST)
    if form.is_valid():
        with errors_on(form):
            service(actor=request.actor, approval=approval, reason=form.cleaned_data["reason"])
            messages.success(request, f"{approval.label}: {show_money(approval.amount_usd)} {word}.")
            return redirect_to(request, reverse("usage:cost-list", args=[request.actor.team.slug]))
    context = {**pages.approval_line(approval), "form": form, "word": word}
    return render(request, "usage/approval_decide.html", context, status=422)


@money_view(Permission.COST_VIEW)
@require_GET
def ledger_list(request: TeamRequest) -> HttpResponse:
    """Every amount, and what it was for."""
    return render(request, "usage/ledger_list.html", pages.ledger_context(request.actor, request.GET, PAGE))


@money_view(Permission.COST_VIEW)
@require_GET
def ledger_export(request: TeamRequest) -> StreamingHttpResponse:
    team = request.actor.team
    rows = reports.ledger_list(team=team, query=request.GET).order_by("id")
    answer = StreamingHttpResponse(exports.ledger_csv(rows, team), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="ledger-{team.slug}.csv"'
    return answer


@money_view(Permission.BUDGET_APPROVE)
@require_http_methods(["GET", "POST"])
def line_correct(request: TeamRequest, line_id: int) -> HttpResponse:
    """Put a line right by another."""
    team = request.actor.team
    line = reports.ledger_list(team=team, query={}).filter(pk=line_id).first()
    if line is None or line.kind != LedgerLine.Kind.SPENT:
        raise NotFound("There is nothing at this address.")
    form = CorrectionForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            services.usage_correct(actor=request.actor, line=line, **form.cleaned_data)
            messages.success(request, "Corrected by a new line.")
            return redirect_to(request, reverse("usage:ledger-list", args=[team.slug]) + f"?for={line.batch_source}")
    context = {
        "row": pages.line_row(team, line),
        "corrections": pages.line_rows(team, line.corrections.select_related("reservation", "user", "api_key")),
        "form": form,
    }
    return render(request, "usage/line_correct.html", context, status=422 if form.errors else 200)


@money_view(Permission.COST_VIEW)
@require_http_methods(["GET", "POST"])
def quota_list(request: TeamRequest) -> HttpResponse:
    """Limits of the team, its members and keys; owners change them here."""
    actor, scope = request.actor, request.GET.get("whose", "team")
    if request.method == "POST":
        check_can(actor, Permission.BUDGET_APPROVE, team=actor.team)
    quota = Quota.objects.filter(team=actor.team, scope=scope).first()
    form = QuotaForm(request.POST or None, team=actor.team, initial=QuotaForm.initial_of(quota, scope))
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            set_to = services.quota_set(actor=actor, **form.order)
            messages.success(request, f"The limits of {set_to.words} are set.")
            return redirect_to(request, reverse("usage:quota-list", args=[actor.team.slug]))
    context = {
        "form": form,
        "all_lines": quotas.quota_lines(team=actor.team),
        "zone_form": TimeZoneForm(initial={"time_zone": actor.team.time_zone}),
        **pages.quotas_context(actor),
    }
    return render(request, "usage/quota_list.html", context, status=422 if form.errors else 200)


@money_view(Permission.TEAM_MANAGE)
@require_POST
def time_zone_set(request: TeamRequest) -> HttpResponse:
    form = TimeZoneForm(request.POST)
    if form.is_valid():
        try:
            team = services.time_zone_set(actor=request.actor, **form.cleaned_data)
            messages.success(request, f"Days and months are cut in {team.time_zone} now, past ones too.")
        except Conflict as exc:
            messages.error(request, str(exc))
    else:
        messages.error(request, "There is no such time zone.")
    return redirect_to(request, reverse("usage:quota-list", args=[request.actor.team.slug]))


@money_view(Permission.COST_VIEW)
@require_GET
def month_list(request: TeamRequest) -> HttpResponse:
    """What each month came to, and whether its books are closed."""
    team = request.actor.team
    context = {
        "months": reports.month_lines(team=team),
        "may_close": can(request.actor, Permission.BUDGET_APPROVE),
        "zone": team.zone.key,
    }
    return render(request, "usage/month_list.html", context)


@money_view(Permission.BUDGET_APPROVE)
@require_POST
def month_close(request: TeamRequest) -> HttpResponse:
    return _month(request, lambda month, reason: services.month_close(actor=request.actor, month=month), "closed")


@money_view(Permission.BUDGET_APPROVE)
@require_POST
def month_reopen(request: TeamRequest) -> HttpResponse:
    return _month(
        request,
        lambda month, reason: services.month_reopen(actor=request.actor, month=month, reason=reason),
        "open again",
    )


def _month(request: TeamRequest, deed: Callable, word: str) -> HttpResponse:
    form = MonthForm(request.POST)
    try:
        if not form.is_valid():
            raise UserError("There is no such month.", fix="Write it as 2026-11.")
        deed(form.cleaned_data["month"], form.cleaned_data["reason"])
        messages.success(request, f"{form.cleaned_data['month']:%B %Y} is {word}.")
    except UserError as exc:
        messages.error(request, str(exc))
    return redirect_to(request, reverse("usage:month-list", args=[request.actor.team.slug]))


@money_view(Permission.COST_VIEW)
@require_GET
def price_list(request: TeamRequest) -> HttpResponse:
    """What things cost here, and what was used without a price."""
    context = {"rows": pages.price_rows(), "unpriced": reports.unpriced_subjects(team=request.actor.team)}
    return render(request, "usage/price_list.html", context)
