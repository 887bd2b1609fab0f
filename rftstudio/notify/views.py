"""The browser's door to notices: what I am mailed, webhooks with their log, metric sinks."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from rftstudio.core.errors import NotAllowed, NotFound, StudioError
from rftstudio.notify import selectors, services
from rftstudio.notify.forms import MailForm, SinkForm, WebhookForm
from rftstudio.notify.models import Delivery
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

LOG = 50


def _page(request: TeamRequest, **more: Any) -> HttpResponse:
    actor = request.actor
    choice = selectors.mail_choice_get(team=actor.team, user=actor.user)
    may_manage = can(actor, Permission.TEAM_MANAGE)
    context = {
        "mail_form": MailForm(instance=choice),
        "may_manage": may_manage,
        "has_mail": bool(settings.EMAIL_HOST),
        "webhooks": selectors.webhook_list(team=actor.team) if may_manage else [],
        "sinks": selectors.sink_list(team=actor.team) if may_manage else [],
        "webhook_form": WebhookForm(),
        "sink_form": SinkForm(),
        **more,
    }
    bad = any(form.errors for form in more.values() if isinstance(form, (WebhookForm, SinkForm)))
    return render(request, "notify/notice_list.html", context, status=422 if bad else 200)


@never_cache  # the answer to a POST shows a secret once
@team_view
@require_http_methods(["GET", "POST"])
def notice_list(request: TeamRequest) -> HttpResponse:
    """All of it on one page; a POST adds a webhook."""
    if request.method == "GET":
        return _page(request)
    check_can(request.actor, Permission.TEAM_MANAGE, team=request.actor.team)
    form, secret = WebhookForm(request.POST), ""
    if form.is_valid():
        with errors_on(form):
            _, secret = services.webhook_create(actor=request.actor, **form.cleaned_data)
            form = WebhookForm()
    return _page(request, webhook_form=form, secret=secret)


@team_view
@require_POST
def mail_choice(request: TeamRequest) -> HttpResponse:
    form = MailForm(request.POST)
    form.is_valid()
    services.mail_choice_set(actor=request.actor, **{name: bool(form.cleaned_data.get(name)) for name in form.fields})
    messages.success(request, "Your choice is kept.")
    return redirect_to(request, _url(request))


def _url(request: TeamRequest) -> str:
    return reverse("notify:notice-list", args=[request.actor.team.slug])


@never_cache
@team_view
@require_http_methods(["GET", "POST"])
def webhook_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    """One webhook with its log; a POST puts another secret in place."""
    check_can(request.actor, Permission.TEAM_MANAGE, team=request.actor.team)
    webhook = selectors.webhook_get(team=request.actor.team, public_id=public_id)
    secret = ""
    if request.method == "POST":
        secret = services.webhook_secret_renew(actor=request.actor, webhook=webhook)
    context = {"webhook": webhook, "secret": secret, "deliveries": selectors.delivery_list(webhook=webhook)[:LOG]}
    return render(request, "notify/webhook_detail.html", context)


def _detail_url(request: TeamRequest, public_id: str) -> str:
    return reverse("notify:webhook-detail", args=[request.actor.team.slug, public_id])


@team_view
@require_POST
def webhook_test(request: TeamRequest, public_id: str) -> HttpResponse:
    webhook = selectors.webhook_get(team=request.actor.team, public_id=public_id)
    try:
        delivery = services.webhook_test(actor=request.actor, webhook=webhook)
    except (NotAllowed, NotFound):
        raise
    except StudioError as exc:
        messages.error(request, str(exc))
    else:
        tried = delivery.tries.last()
        if delivery.status == Delivery.Status.DONE:
            messages.success(request, f"The address answered {tried.status}.")
        else:
            messages.error(request, f"It did not arrive: {tried.fault}." if tried else "It was not sent.")
    return redirect_to(request, _detail_url(request, public_id))


@team_view
@require_POST
def webhook_switch(request: TeamRequest, public_id: str) -> HttpResponse:
    webhook = selectors.webhook_get(team=request.actor.team, public_id=public_id)
    services.webhook_update(actor=request.actor, webhook=webhook, is_active=not webhook.is_active)
    messages.success(request, "Switched on." if webhook.is_active else "Switched off.")
    return redirect_to(request, _detail_url(request, public_id))


@team_view
@require_POST
def webhook_remove(request: TeamRequest, public_id: str) -> HttpResponse:
    webhook = selectors.webhook_get(team=request.actor.team, public_id=public_id)
    services.webhook_remove(actor=request.actor, webhook=webhook)
    messages.success(request, "The webhook and its log are gone.")
    return redirect_to(request, _url(request))


@team_view
@require_POST
def delivery_replay(request: TeamRequest, public_id: str) -> HttpResponse:
    delivery = selectors.delivery_get(team=request.actor.team, public_id=public_id)
    try:
        services.delivery_replay(actor=request.actor, delivery=delivery)
        messages.success(request, "It is sent again, with the same id.")
    except (NotAllowed, NotFound):
        raise
    except StudioError as exc:
        messages.error(request, str(exc))
    return redirect_to(request, _detail_url(request, delivery.webhook.public_id))


@team_view
@require_POST
def sink_new(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.TEAM_MANAGE, team=request.actor.team)
    form = SinkForm(request.POST)
    if form.is_valid():
        with errors_on(form):
            services.sink_create(actor=request.actor, **form.cleaned_data)
            messages.success(request, "Metrics of jobs are copied there from now on.")
            return redirect_to(request, _url(request))
    return _page(request, sink_form=form)


@team_view
@require_POST
def sink_switch(request: TeamRequest, public_id: str) -> HttpResponse:
    sink = selectors.sink_get(team=request.actor.team, public_id=public_id)
    services.sink_switch(actor=request.actor, sink=sink, is_active=not sink.is_active)
    messages.success(request, "Switched on." if sink.is_active else "Switched off.")
    return redirect_to(request, _url(request))


@team_view
@require_POST
def sink_remove(request: TeamRequest, public_id: str) -> HttpResponse:
    sink = selectors.sink_get(team=request.actor.team, public_id=public_id)
    services.sink_remove(actor=request.actor, sink=sink)
    messages.success(request, "Nothing more is copied there. What was copied stays.")
    return redirect_to(request, _url(request))
