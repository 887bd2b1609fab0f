"""Reads about notices."""

from django.db.models import Prefetch, QuerySet

from rftstudio.core.errors import NotFound
from rftstudio.notify.models import Attempt, Delivery, MailChoice, Sink, Webhook
from rftstudio.teams.models import Team, User


def webhook_list(*, team: Team) -> QuerySet[Webhook]:
    return Webhook.objects.filter(team=team).order_by("-id")


def webhook_get(*, team: Team, public_id: str) -> Webhook:
    found = Webhook.objects.select_related("team").filter(team=team, public_id=public_id).first()
    if found is None:
        raise NotFound("There is nothing at this address.")
    return found


def delivery_list(*, webhook: Webhook) -> QuerySet[Delivery]:
    """Newest first, each with its tries."""
    tries = Prefetch("tries", Attempt.objects.order_by("-id"))
    rows = Delivery.objects.filter(webhook=webhook).select_related("event", "webhook__team")
    return rows.prefetch_related(tries).order_by("-id")


def delivery_get(*, team: Team, public_id: str) -> Delivery:
    rows = Delivery.objects.select_related("webhook__team", "event").prefetch_related("tries")
    found = rows.filter(webhook__team=team, public_id=public_id).first()
    if found is None:
        raise NotFound("There is nothing at this address.")
    return found


def sink_find(*, team: Team, kind: str) -> Sink | None:
    """One of the team's sinks of this kind to which metrics are copied now."""
    return Sink.objects.filter(team=team, kind=kind, is_active=True).order_by("pk").first()


def mail_choice_get(*, team: Team, user: User) -> MailChoice:
    """The person's choice, or the one that stands until they choose."""
    return MailChoice.objects.filter(team=team, user=user).first() or MailChoice(team=team, user=user)


def sink_list(*, team: Team) -> QuerySet[Sink]:
    return Sink.objects.filter(team=team).order_by("-id")


def sink_get(*, team: Team, public_id: str) -> Sink:
    found = Sink.objects.select_related("team").filter(team=team, public_id=public_id).first()
    if found is None:
        raise NotFound("There is nothing at this address.")
    return found
