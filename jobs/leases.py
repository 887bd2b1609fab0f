"""Leases: one worker looks after a job at a time. A lease is a column with an end, so a dead worker's runs out."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from jobs.models import Job

LEASE_SECONDS = 30


class LeaseLost(Exception):
    """Another worker took over; whatever this one was about to write must not be written."""


class Lease:
    """The right to look after one job, for a while. The end of the lease is also its token."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        self.until: datetime | None = None

    def take(self) -> bool:
        now = timezone.now()
        until = now + timedelta(seconds=LEASE_SECONDS)
        free = Job.objects.filter(pk=self.job_id).filter(Q(lease_until=None) | Q(lease_until__lt=now))
        if free.update(lease_until=until) != 1:
            return False
        self.until = until
        return True

    @contextmanager
    def renewed(self, seconds: float | None = None) -> Iterator[None]:
        """A transaction that lengthens the lease first, and fails as a whole when the lease has gone."""
        before = self.until
        until = max(timezone.now(), before) + timedelta(seconds=seconds or LEASE_SECONDS, microseconds=1)
        try:
            with transaction.atomic():
                if Job.objects.filter(pk=self.job_id, lease_until=before).update(lease_until=until) != 1:
                    raise LeaseLost(f"job {self.job_id}")
                self.until = until
                yield
        except BaseException:
            self.until = before
            raise

    def lengthen(self, seconds: float) -> None:
        """For what takes longer; LeaseLost when the lease has gone."""
        with self.renewed(seconds):
            pass

    def give_back(self) -> None:
        Job.objects.filter(pk=self.job_id, lease_until=self.until).update(lease_until=None)


@contextmanager
def leased(job_id: int) -> Iterator[Lease | None]:
    """The lease, or None when another worker holds it."""
    lease = Lease(job_id)
    if not lease.take():
        yield None
        return
    try:
        yield lease
    finally:
        lease.give_back()
