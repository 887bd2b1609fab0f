"""Webhooks: found by looking, signed so that the maintained library takes it, tried again, logged, replayed."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from rftstudio.core.errors import NotAllowed, QuotaExceeded, UserError
from rftstudio.core.outbound import AddressRefused
from rftstudio.notify import sending, tasks
from rftstudio.notify.models import Delivery, Event, Webhook
from rftstudio.notify.sending import PAUSES, delivery_send
from rftstudio.notify.services import (
    delivery_replay,
    notices_sweep,
    webhook_create,
    webhook_secret_renew,
    webhook_test,
    webhook_update,
)
from rftstudio.usage.models import Approval
from tests.fakes.server import Reply

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def queued(monkeypatch):
    """Ids that the sweep gives to workers; the tests send them themselves."""
    found: list[int] = []
    monkeypatch.setattr(tasks.delivery_send, "delay", found.append)
    return found


def due_now(delivery: Delivery) -> Delivery:
    Delivery.objects.filter(pk=delivery.pk).update(next_at=timezone.now())
    return delivery


def test_a_job_that_ended_is_told_once_in_the_references_shape_and_signed(hook, receiver, ended, queued):
    webhook, secret = hook
    job = ended("succeeded")
    assert notices_sweep() == 1
    assert notices_sweep() == 0
    delivery_send(delivery_id=queued[0])
    (sent,) = receiver.server.requests
    headers = {name.lower(): value for name, value in sent.headers.items()}
    body = Verifier(secret).verify(sent.body, headers)
    event = Event.objects.get()
    assert body == {
        "id": event.public_id,
        "object": "event",
        "created_at": int(job.finished_at.timestamp()),
        "type": "fine_tuning.job.succeeded",
        "data": {"id": job.public_id},
    }
    assert headers["webhook-id"] == event.public_id
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.attempts, delivery.tries.get().status) == ("done", 1, 204)


def test_the_openai_sdk_unwraps_what_is_sent(hook, receiver, ended, queued):
    import openai

    webhook, secret = hook
    job = ended("failed")
    notices_sweep()
    delivery_send(delivery_id=queued[0])
    sent = receiver.server.requests[0]
    client = openai.OpenAI(api_key="unused", webhook_secret=secret)
    event = client.webhooks.unwrap(sent.body.decode(), sent.headers)
    assert (event.type, event.data.id) == ("fine_tuning.job.failed", job.public_id)


def test_a_changed_body_or_another_secret_is_no_valid_signature(hook, receiver, ended, queued):
    ended()
    notices_sweep()
    delivery_send(delivery_id=queued[0])
    sent = receiver.server.requests[0]
    with pytest.raises(WebhookVerificationError):
        Verifier(hook[1]).verify(sent.body + b" ", dict(sent.headers))
    with pytest.raises(WebhookVerificationError):
        Verifier("whsec_" + "A" * 32).verify(sent.body, dict(sent.headers))


def test_a_failure_is_tried_again_with_growing_pauses_until_it_works(hook, receiver, ended, queued):
    receiver.replies = [Reply(500), Reply(503, cut=True), Reply(200)]
    ended()
    notices_sweep()
    delivery = Delivery.objects.get()
    pauses = []
    for _ in range(3):
        before = timezone.now()
        delivery_send(delivery_id=delivery.pk)
        delivery.refresh_from_db()
        pauses.append((delivery.next_at - before).total_seconds())
        due_now(delivery)
    assert delivery.status == "done"
    assert [tried.status for tried in delivery.tries.order_by("id")] == [500, 0, 200]
    assert PAUSES[0] <= pauses[0] < PAUSES[0] * 1.2 < PAUSES[1] <= pauses[1]
    ids = {
        request.headers.get("webhook-id") or request.headers.get("Webhook-Id") for request in receiver.server.requests
    }
    assert len(ids) == 1


def test_after_the_last_pause_it_is_given_up_and_can_be_replayed(hook, receiver, ended, owner):
    receiver.replies = [Reply(500)]
    ended()
    notices_sweep()
    delivery = Delivery.objects.get()
    Delivery.objects.filter(pk=delivery.pk).update(attempts=len(PAUSES))
    assert delivery_send(delivery_id=delivery.pk).status == "failed"
    receiver.replies = [Reply(200)]
    again = delivery_replay(actor=owner, delivery=delivery)
    assert delivery_send(delivery_id=again.pk).status == "done"
    first, second = receiver.server.requests
    assert first.body == second.body
    assert again.round == 1


def test_two_workers_send_a_delivery_once(hook, receiver, ended):
    ended()
    notices_sweep()
    delivery = Delivery.objects.get()
    assert sending.claim(delivery.pk) is not None
    assert sending.claim(delivery.pk) is None
    assert delivery_send(delivery_id=delivery.pk) is None
    Delivery.objects.filter(pk=delivery.pk).update(next_at=timezone.now() - timedelta(seconds=1))
    assert delivery_send(delivery_id=delivery.pk).status == "done"  # the first worker died; its lease is over


def test_410_switches_the_webhook_off(hook, receiver, ended):
    receiver.replies = [Reply(410)]
    ended()
    notices_sweep()
    assert delivery_send(delivery_id=Delivery.objects.get().pk).status == "failed"
    webhook = Webhook.objects.get()
    assert not webhook.is_active
    assert "410" in webhook.note


def test_a_redirect_is_not_followed(hook, receiver, ended):
    receiver.replies = [Reply(302, headers={"Location": "http://169.254.169.254/"})]
    ended()
    notices_sweep()
    delivery = delivery_send(delivery_id=Delivery.objects.get().pk)
    assert delivery.status == "queued"
    assert delivery.tries.get().fault == "answered 302"
    assert len(receiver.server.requests) == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/x", "http://169.254.169.254/", "http://[::1]/", "http://0x7f000001/"]
)
def test_an_address_inside_is_refused_when_it_is_saved(owner, url):
    with pytest.raises(AddressRefused):
        webhook_create(actor=owner, url=url)


def test_a_host_that_is_closed_again_is_refused_when_sending(hook, receiver, ended, settings):
    ended()
    notices_sweep()
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = []
    delivery = delivery_send(delivery_id=Delivery.objects.get().pk)
    assert delivery.status == "queued"
    assert "inside this network" in delivery.tries.get().fault
    assert receiver.server.requests == []


def test_only_wanted_events_of_the_own_team_after_the_webhook_was_made(hook, owner, stranger, receiver, ended):
    webhook, _ = hook
    webhook_update(actor=owner, webhook=webhook, events=["fine_tuning.job.failed"])
    other, _ = webhook_create(actor=stranger, url=f"{receiver.server.url}/theirs")
    early = ended("failed")
    early.finished_at = webhook.created_at - timedelta(minutes=1)
    early.save()
    ended("succeeded")
    wanted = ended("failed")
    notices_sweep()
    assert [delivery.event.object_id for delivery in Delivery.objects.all()] == [wanted.public_id]
    assert not other.deliveries.exists()


def test_pauses_evaluations_checkpoints_and_approvals_are_told_too(hook, ended, team):
    from jobs.models import Checkpoint

    job = ended("paused", queued_at=timezone.now())
    job.baseline.finished_at = timezone.now()
    job.baseline.save()
    Checkpoint.objects.create(team=team, job=job, step_number=3, path="x")
    Approval.objects.create(team=team, source=job.public_id, label="Job 1", amount_usd=5)
    notices_sweep()
    kinds = set(Event.objects.values_list("type", flat=True))
    assert kinds == {
        "studio.job.paused", "studio.evaluation.succeeded", "studio.checkpoint.saved", "studio.approval.asked"
    }  # fmt: skip
    job.queued_at = timezone.now()  # it went on, and paused once more
    job.save()
    notices_sweep()
    assert Event.objects.filter(type="studio.job.paused").count() == 2


def test_test_button_sends_at_once_and_is_limited(hook, owner, receiver):
    webhook, secret = hook
    assert webhook_test(actor=owner, webhook=webhook).status == "done"
    assert json.loads(receiver.server.requests[0].body)["type"] == "studio.test"
    receiver.replies = [Reply(500, b"<script>secret</script>")]
    failed = webhook_test(actor=owner, webhook=webhook)
    assert failed.status == "failed"  # a person looks at it, so it is not tried again
    assert "script" not in failed.tries.get().fault
    for _ in range(8):
        webhook_test(actor=owner, webhook=webhook)
    with pytest.raises(QuotaExceeded):
        webhook_test(actor=owner, webhook=webhook)


def test_a_new_secret_signs_beside_the_old_one_for_a_day(hook, owner, receiver, ended, queued):
    webhook, old = hook
    new = webhook_secret_renew(actor=owner, webhook=webhook)
    ended()
    notices_sweep()
    delivery_send(delivery_id=queued[0])
    sent = receiver.server.requests[0]
    for secret in (old, new):
        Verifier(secret).verify(sent.body, dict(sent.headers))
    webhook.refresh_from_db()
    webhook.old_until = timezone.now() - timedelta(seconds=1)
    webhook.save()
    assert webhook_test(actor=owner, webhook=webhook).status == "done"
    later = receiver.server.requests[1]
    with pytest.raises(WebhookVerificationError):
        Verifier(old).verify(later.body, dict(later.headers))


def test_the_secret_is_stored_sealed(hook):
    webhook, secret = hook
    assert secret.startswith("whsec_")
    assert secret not in str(Webhook.objects.values().get())


def test_refusals(owner, member, hook):
    with pytest.raises(NotAllowed):
        webhook_create(actor=member, url="https://hooks.example.com/")
    with pytest.raises(UserError, match="no event"):
        webhook_create(actor=owner, url="https://hooks.example.com/", events=["job.done"])
