"""Sends webhooks: signed as Standard Webhooks says, through the guarded client, again with growing pauses until it works."""

import asyncio
import json
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from time import monotonic

from django.db import transaction
from django.utils import timezone
from standardwebhooks.webhooks import Webhook as Signer

from rftstudio.core.outbound import Answer, OutboundClient, allowed_hosts
from rftstudio.core.sealed import unseal
from rftstudio.notify.models import Attempt, Delivery, Event, Webhook

#: Pauses after each failure; about a day and a half in all, then it is given up and can be replayed.
PAUSES = [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 50_000]
SECONDS = 15.0
#: While one worker is at it, no other takes the delivery.
LEASE = timedelta(seconds=60)
MOST_ANSWER = 100_000
_GONE = 410


def payload(event: Event) -> bytes:
    """The reference's shape; details are fetched by id, so that nothing private leaves unasked."""
    body = {
        "id": event.public_id,
        "object": "event",
        "created_at": int(event.happened_at.timestamp()),
        "type": event.type,
        "data": {"id": event.object_id},
    }
    return json.dumps(body, separators=(",", ":")).encode()


def headers_of(webhook: Webhook, event: Event, body: bytes, at: datetime) -> dict[str, str]:
    """Signed with the present secret and, for a day after a change, with the one before."""
    secrets = [unseal(webhook.secret_sealed)]
    if webhook.old_secret_sealed and webhook.old_until and webhook.old_until > at:
        secrets.append(unseal(webhook.old_secret_sealed))
    signatures = [Signer(secret).sign(event.public_id, at, body.decode()) for secret in secrets]
    return {
        "Content-Type": "application/json",
        "User-Agent": "RFT-Studio",
        "webhook-id": event.public_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def claim(delivery_id: int) -> Delivery | None:
    """Take a delivery that is due; None when another worker has it, or it has ended."""
    now = timezone.now()
    due = Delivery.objects.filter(pk=delivery_id, status=Delivery.Status.QUEUED, next_at__lte=now)
    if due.update(next_at=now + LEASE) != 1:
        return None
    return Delivery.objects.select_related("webhook", "event").get(pk=delivery_id)


def delivery_send(*, delivery_id: int) -> Delivery | None:
    """Try once and note what came back. Asked twice at once, it is sent once."""
    delivery = claim(delivery_id)
    if delivery is None:
        return None
    webhook, event, now = delivery.webhook, delivery.event, timezone.now()
    if not webhook.is_active:
        return _end(
            delivery, Delivery.Status.FAILED, Answer(0, fault="refused", reason="the webhook was switched off"), 0
        )
    body = payload(event)
    started = monotonic()
    with ThreadPoolExecutor(1) as apart:  # the asking thread may have an event loop of its own
        answer = apart.submit(asyncio.run, _post(webhook.url, body, headers_of(webhook, event, body, now))).result()
    spent = (monotonic() - started) * 1000
    if answer.is_ok:
        return _end(delivery, Delivery.Status.DONE, answer, spent)
    if answer.status == _GONE:
        Webhook.objects.filter(pk=webhook.pk).update(
            is_active=False, note="The address answered 410 Gone, which asks not to be called again."
        )
        return _end(delivery, Delivery.Status.FAILED, answer, spent)
    is_last = delivery.attempts >= len(PAUSES) or event.type == "studio.test"
    return _end(delivery, Delivery.Status.FAILED if is_last else Delivery.Status.QUEUED, answer, spent)


async def _post(url: str, body: bytes, headers: dict[str, str]) -> Answer:
    async with OutboundClient(allowed=allowed_hosts(), max_connections=1) as client:
        return await client.post(url, body=body, headers=headers, seconds=SECONDS, max_bytes=MOST_ANSWER)


@transaction.atomic
def _end(delivery: Delivery, status: str, answer: Answer, milliseconds: float) -> Delivery:
    now = timezone.now()
    pause = PAUSES[min(delivery.attempts, len(PAUSES) - 1)] * random.uniform(1.0, 1.1)  # noqa: S311 spreads retries
    fault = answer.reason or ("" if answer.is_ok else f"answered {answer.status}")
    Attempt.objects.create(
        delivery=delivery, at=now, status=answer.status, fault=fault[:200], milliseconds=round(milliseconds, 1)
    )
    delivery.status, delivery.attempts = status, delivery.attempts + 1
    delivery.next_at = now + timedelta(seconds=pause)
    delivery.delivered_at = now if status == Delivery.Status.DONE else None
    delivery.save(update_fields=["status", "attempts", "next_at", "delivered_at", "updated_at"])
    return delivery
