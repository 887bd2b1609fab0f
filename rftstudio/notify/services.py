"""Writes about notices: webhooks and their deliveries, who is mailed, sinks; and the look that moves all of them."""

import base64
import secrets as randomness
from datetime import timedelta

from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.db.models import Max
from django.utils import timezone

from rftstudio.core.errors import Conflict, QuotaExceeded, UserError
from rftstudio.core.ids import new_id
from rftstudio.core.outbound import allowed_hosts, check_url
from rftstudio.core.queueing import queue
from rftstudio.core.sealed import seal
from rftstudio.notify import finding, mails, sending, tasks
from rftstudio.notify.models import Delivery, Event, EventType, MailChoice, Sink, Webhook
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

MOST_WEBHOOKS, MOST_SINKS = 20, 10
#: How long a replaced secret goes on signing beside the new one.
OVERLAP = timedelta(hours=24)
TESTS_PER_MINUTE = 10
_SENT_AT_ONCE = 50


def new_secret() -> str:
    """A Standard Webhooks secret: whsec_ and 24 random bytes."""
    return "whsec_" + base64.b64encode(randomness.token_bytes(24)).decode()


def _check_events(events: list[str]) -> list[str]:
    known = [kind for kind in EventType.values if kind != EventType.TEST]
    if unknown := [one for one in events if one not in known]:
        raise UserError(f"There is no event {unknown[0]!r}.", where="events", fix=f"Choose from: {', '.join(known)}.")
    return sorted(set(events))


@transaction.atomic
def webhook_create(*, actor: Actor, url: str, events: list[str] | None = None) -> tuple[Webhook, str]:
    """Add an address and return it with its secret, which is sealed and cannot be shown again."""
    check_can(actor, Permission.TEAM_MANAGE, team=actor.team)
    check_url(url, allowed=allowed_hosts(), where="url")
    if Webhook.objects.filter(team=actor.team).count() >= MOST_WEBHOOKS:
        raise Conflict(f"A team has at most {MOST_WEBHOOKS} webhooks.", fix="Remove one that is not needed.")
    secret = new_secret()
    webhook = Webhook.objects.create(
        team=actor.team, created_by=actor.user, url=url, events=_check_events(events or []), secret_sealed=seal(secret)
    )
    audit(actor, "webhook.created", webhook, events=webhook.events)
    return webhook, secret


@transaction.atomic
def webhook_update(
    *, actor: Actor, webhook: Webhook, url: str | None = None, events: list[str] | None = None, is_active: bool | None = None
) -> Webhook:  # fmt: skip
    """Change what is named; the rest stays."""
    check_can(actor, Permission.TEAM_MANAGE, team=webhook.team)
    if url is not None:
        check_url(url, allowed=allowed_hosts(), where="url")
        webhook.url = url
    if events is not None:
        webhook.events = _check_events(events)
    if is_active is not None:
        webhook.is_active, webhook.note = is_active, ""
    webhook.save()
    audit(actor, "webhook.updated", webhook, events=webhook.events, is_active=webhook.is_active)
    return webhook


@transaction.atomic
def webhook_secret_renew(*, actor: Actor, webhook: Webhook) -> str:
    """Put another secret in place; the one before signs beside it for a day, so that no delivery is refused meanwhile."""
    check_can(actor, Permission.TEAM_MANAGE, team=webhook.team)
    secret = new_secret()
    webhook.old_secret_sealed, webhook.old_until = webhook.secret_sealed, timezone.now() + OVERLAP
    webhook.secret_sealed = seal(secret)
    webhook.save()
    audit(actor, "webhook.secret_renewed", webhook)
    return secret


@transaction.atomic
def webhook_remove(*, actor: Actor, webhook: Webhook) -> None:
    """Take an address out, with its log."""
    check_can(actor, Permission.TEAM_MANAGE, team=webhook.team)
    audit(actor, "webhook.removed", webhook)
    webhook.delete()


def webhook_test(*, actor: Actor, webhook: Webhook) -> Delivery:
    """Send a test event now and answer how that went. The same checks as for a real one; ten a minute for a team."""
    check_can(actor, Permission.TEAM_MANAGE, team=webhook.team)
    key = f"webhook-test:{webhook.team_id}"
    cache.add(key, 0, timeout=60)
    if cache.incr(key) > TESTS_PER_MINUTE:
        raise QuotaExceeded("Your team has sent many tests this minute.", fix="Wait a minute, then try again.")
    now = timezone.now()
    event = Event.objects.create(
        team=webhook.team, type=EventType.TEST, key=new_id("test:"), object_id=webhook.public_id,
        title="A test of this webhook", happened_at=now,
    )  # fmt: skip
    delivery = Delivery.objects.create(webhook=webhook, event=event, next_at=now)
    audit(actor, "webhook.tested", webhook)
    sending.delivery_send(delivery_id=delivery.pk)
    delivery.refresh_from_db()
    return delivery


@transaction.atomic
def delivery_replay(*, actor: Actor, delivery: Delivery) -> Delivery:
    """Send the same event again, with the same id: a receiver that had it knows it."""
    check_can(actor, Permission.TEAM_MANAGE, team=delivery.webhook.team)
    if not delivery.webhook.is_active:
        raise Conflict("The webhook is switched off.", fix="Switch it on, then replay.")
    Webhook.objects.select_for_update().get(pk=delivery.webhook_id)
    same = Delivery.objects.filter(webhook=delivery.webhook, event=delivery.event)
    if waiting := same.filter(status=Delivery.Status.QUEUED).first():
        Delivery.objects.filter(pk=waiting.pk).update(next_at=timezone.now())
        made = waiting
    else:
        last = same.aggregate(last=Max("round"))["last"]
        made = Delivery.objects.create(
            webhook=delivery.webhook, event=delivery.event, round=last + 1, next_at=timezone.now()
        )
    audit(actor, "webhook.replayed", delivery.webhook, event=delivery.event.public_id)
    queue(tasks.delivery_send, made.pk)
    return made


@transaction.atomic
def mail_choice_set(*, actor: Actor, job_ended: bool, approval_asked: bool) -> MailChoice:
    """What this person wants to be mailed about this team."""
    check_can(actor, Permission.VIEW, team=actor.team)
    if actor.user is None:
        raise Conflict("A key has no mail.", fix="Choose this in the browser.")
    wanted = {"job_ended": job_ended, "approval_asked": approval_asked}
    row, _ = MailChoice.objects.update_or_create(team=actor.team, user=actor.user, defaults=wanted)
    audit(actor, "mail_choice.set", row, **wanted)
    return row


@transaction.atomic
def sink_create(*, actor: Actor, kind: str, project: str, url: str = "", secret: str = "") -> Sink:
    """Copy train metrics to another place from now on. The kind's package has to be there; MLflow needs none."""
    from rftstudio.notify.sinks.registry import check_installed

    check_can(actor, Permission.TEAM_MANAGE, team=actor.team)
    if kind not in Sink.Kind.values:
        raise UserError(
            f"There is no sink {kind!r}.", where="kind", fix=f"Choose one of {', '.join(Sink.Kind.values)}."
        )
    check_installed(kind)
    if kind == Sink.Kind.MLFLOW and not url:
        raise UserError("MLflow needs the address of its server.", where="url", fix="Write https://host.")
    if url:
        check_url(url, allowed=allowed_hosts(), where="url")
    if Sink.objects.filter(team=actor.team).count() >= MOST_SINKS:
        raise Conflict(f"A team has at most {MOST_SINKS} sinks.", fix="Remove one that is not needed.")
    sink = Sink.objects.create(
        team=actor.team, created_by=actor.user, kind=kind, project=project.strip()[:120] or "rft-studio", url=url,
        secret_sealed=seal(secret.strip()),
    )  # fmt: skip
    audit(actor, "sink.created", sink, kind=kind, project=sink.project)
    return sink


@transaction.atomic
def sink_switch(*, actor: Actor, sink: Sink, is_active: bool) -> Sink:
    check_can(actor, Permission.TEAM_MANAGE, team=sink.team)
    sink.is_active, sink.note = is_active, ""
    sink.save(update_fields=["is_active", "note", "updated_at"])
    audit(actor, "sink.switched", sink, is_active=is_active)
    return sink


@transaction.atomic
def sink_remove(*, actor: Actor, sink: Sink) -> None:
    """Stop copying. What was copied stays where it is."""
    check_can(actor, Permission.TEAM_MANAGE, team=sink.team)
    audit(actor, "sink.removed", sink, kind=sink.kind)
    sink.delete()


# -- what the sweep does ----------------------------------------------------------------------------------------------


def notices_sweep() -> int:
    """Note what happened, make its deliveries and mails, and wake what is due; returns how many events were new."""
    fresh = finding.events_find()
    for event in fresh:
        _spread(event)
    for event in Event.objects.filter(mails__sent_at=None, mails__isnull=False).distinct()[:_SENT_AT_ONCE]:
        mails.mails_send(event=event)
    due = Delivery.objects.filter(status=Delivery.Status.QUEUED, next_at__lte=timezone.now()).order_by("next_at")
    for delivery_id in due.values_list("pk", flat=True)[:_SENT_AT_ONCE]:
        tasks.delivery_send.delay(delivery_id)
    return len(fresh)


def _spread(event: Event) -> None:
    """A delivery for each address that wants it and was there when it happened, and a mail for each person."""
    now = timezone.now()
    for webhook in Webhook.objects.filter(team=event.team, is_active=True, created_at__lte=event.happened_at):
        if not webhook.events or event.type in webhook.events:
            try:
                with transaction.atomic():
                    Delivery.objects.get_or_create(webhook=webhook, event=event, round=0, defaults={"next_at": now})
            except IntegrityError:  # another sweep was first
                continue
    mails.mails_make(event=event)
