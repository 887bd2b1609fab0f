"""An address of a receiver that really answers, and events to tell it of."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from jobs.models import Job
from rftstudio.notify.services import webhook_create
from tests.factories.studio import ready_baseline_of
from tests.fakes.server import HttpServer, Reply


@pytest.fixture(autouse=True)
def _no_tests_sent_before():
    cache.clear()


class Receiver:
    """`replies` are given in turn, the last one for ever."""

    def __init__(self) -> None:
        self.replies: list[Reply] = [Reply(204)]
        self.server = HttpServer(self._answer)

    def _answer(self, request):
        return self.replies[min(len(self.server.requests), len(self.replies)) - 1]


@pytest.fixture
def receiver(settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    made = Receiver()
    with made.server:
        yield made


@pytest.fixture
def hook(owner, receiver):
    """(webhook, secret)"""
    return webhook_create(actor=owner, url=f"{receiver.server.url}/studio")


@pytest.fixture
def ended(member):
    """`ended(status)`: a job of the team that ended now, launched by `member`."""
    baseline = ready_baseline_of(member)
    baseline.finished_at = timezone.now() - timedelta(days=30)
    baseline.save()

    def make(status: str = "succeeded", **more):
        number = Job.objects.filter(team=member.team).count() + 1
        return Job.objects.create(
            team=member.team, created_by=member.user, number=number, baseline=baseline, base_model=baseline.model,
            status=status, finished_at=timezone.now(), **more,
        )  # fmt: skip

    return make
