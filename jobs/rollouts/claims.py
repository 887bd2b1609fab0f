"""Leases on rollouts: who runs which row, for how long, and what happens when a worker dies.

A claim is a lease that its holder renews; a row whose lease has run out goes back to the queue, at most three times.
Nothing here holds a transaction over a call.
"""

from collections.abc import Iterable
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from jobs.rollouts.models import Rollout, RolloutBatch

LEASE = timedelta(seconds=60)
MAX_ATTEMPTS = 3
_LOST = f"The worker that ran this rollout was lost {MAX_ATTEMPTS} times."


@transaction.atomic
def claim(batch: RolloutBatch, count: int) -> list[Rollout]:
    """Take up to `count` queued rollouts, oldest first. Two workers never get the same row.

    SQLite begins its transactions IMMEDIATE, so the read and the write are one; PostgreSQL skips rows others hold.
    """
    if count < 1:
        return []
    queued = Rollout.objects.filter(batch=batch, status=Rollout.Status.QUEUED).order_by("id")
    if connection.features.has_select_for_update_skip_locked:
        queued = queued.select_for_update(skip_locked=True)
    ids = list(queued.values_list("pk", flat=True)[:count])
    now = timezone.now()
    Rollout.objects.filter(pk__in=ids).update(
        status=Rollout.Status.RUNNING, lease_until=now + LEASE, attempt=F("attempt") + 1, started_at=now
    )
    return list(Rollout.objects.filter(pk__in=ids).select_related("item").order_by("id"))


def renew(rollout_ids: Iterable[int]) -> None:
    """Say that these are still being run."""
    rows = Rollout.objects.filter(pk__in=list(rollout_ids), status=Rollout.Status.RUNNING)
    rows.update(lease_until=timezone.now() + LEASE)


def hand_back(rollout_ids: Iterable[int]) -> None:
    """Return rows that were claimed and cannot be run now."""
    rows = Rollout.objects.filter(pk__in=list(rollout_ids), status=Rollout.Status.RUNNING)
    rows.update(status=Rollout.Status.QUEUED, lease_until=None)


def free_expired() -> int:
    """Put rows of dead workers back, or fail them for good after three attempts; returns how many were freed."""
    expired = Rollout.objects.filter(status=Rollout.Status.RUNNING, lease_until__lt=timezone.now())
    expired.filter(batch__is_cancelled=True).update(
        status=Rollout.Status.CANCELLED, stop_reason=Rollout.StopReason.CANCELLED, lease_until=None
    )
    expired.filter(attempt__gte=MAX_ATTEMPTS).update(
        status=Rollout.Status.FAILED, stop_reason=Rollout.StopReason.STUDIO_FAILED, error=_LOST, lease_until=None
    )
    return expired.update(status=Rollout.Status.QUEUED, lease_until=None)


def cancel_queued(batches) -> int:
    """End rollouts of cancelled batches that nobody runs."""
    queued = Rollout.objects.filter(batch__in=batches, status=Rollout.Status.QUEUED)
    return queued.update(status=Rollout.Status.CANCELLED, stop_reason=Rollout.StopReason.CANCELLED)
