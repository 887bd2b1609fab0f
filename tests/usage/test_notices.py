"""People are told before money hurts, each thing once."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.core import mail
from django.utils import timezone

from rftstudio.teams.services import api_key_create
from rftstudio.usage.models import Notice
from rftstudio.usage.services import Usage, notices_look, price_set, quota_set, reservation_hold, usage_record_many
from tests.factories.teams import UserFactory
from tests.factories.usage import PriceFactory


@pytest.fixture(autouse=True)
def _mail(settings):
    settings.EMAIL_HOST, settings.EMAIL_BACKEND = "mail.example", "django.core.mail.backends.locmem.EmailBackend"
    settings.STUDIO_PUBLIC_URL = "https://studio.example"


@pytest.fixture
def look(django_capture_on_commit_callbacks):
    def looked() -> list[tuple[list[str], str]]:
        mail.outbox.clear()
        with django_capture_on_commit_callbacks(execute=True):
            notices_look()
        return [(one.to, one.subject) for one in mail.outbox]

    return looked


def used(team, source, quantity, unit="training_second", subject="trl", at=None) -> None:
    usage_record_many(team=team, usages=[Usage(source, unit, subject, quantity, at or timezone.now())])


def test_missing_price_is_mailed_to_administrators_once_a_month(team, owner, look):
    root = UserFactory(is_superuser=True)
    UserFactory(is_superuser=True, is_active=False)
    used(team, "a", 5, "output_token", "model-x")
    used(team, "b", 5, "output_token", "model-x")
    assert look() == [([root.email], "No price for model-x")]
    assert "2 ledger lines count model-x by the output token" in mail.outbox[0].body
    assert "https://studio.example/admin/usage/price/add/" in mail.outbox[0].body
    assert Notice.objects.get().recipients == 1
    assert look() == []
    price_set(
        user=root, unit="output_token", subject="model-x", usd=Decimal(1), valid_from=timezone.now() - timedelta(days=2)
    )
    used(team, "c", 5, "output_token", "model-y")
    assert look() == [([root.email], "No price for model-y")]


def test_quota_is_told_to_owners_at_four_fifths_and_when_it_is_gone(team, owner, member, look):
    PriceFactory()
    quota_set(actor=owner, usd_month=Decimal(100))
    used(team, "a", 79)
    assert look() == []
    reservation_hold(actor=member, source="ftjob-1", kind="job", label="Job 1", amount=1)
    assert look() == [([owner.user.email], "Duty desk: little is left this month")]
    assert "$79.00 are spent and $1.00 held" in mail.outbox[0].body
    assert look() == []
    used(team, "b", 25)
    assert look() == [([owner.user.email], "Duty desk: nothing is left this month")]
    assert "passed it by $5.00" in mail.outbox[0].body


def test_storage_is_told_before_uploads_are_refused(team, owner, look):
    quota_set(actor=owner, storage_gb=Decimal(10))
    PriceFactory(unit="storage_gb_day", subject="*", usd=0)
    used(team, "day 1", Decimal("7.9"), "storage_gb_day", "storage")
    assert look() == []
    used(team, "day 2", Decimal("8.1"), "storage_gb_day", "storage")
    assert look() == [([owner.user.email], "Duty desk: storage is nearly full")]
    assert "8.10 GB of 10 GB" in mail.outbox[0].body


def test_without_a_mail_server_the_notice_is_kept(team, owner, look, settings):
    settings.EMAIL_HOST = ""
    used(team, "a", 5, "output_token", "model-x")
    assert look() == []
    assert Notice.objects.get().recipients == 0


def test_key_in_use_is_told_a_week_before_it_ends(team, owner, look):
    soon = timezone.now() + timedelta(days=6)
    used_key, _ = api_key_create(actor=owner, name="nightly", expires_at=soon)
    api_key_create(actor=owner, name="idle", expires_at=soon)
    later, _ = api_key_create(actor=owner, name="later", expires_at=timezone.now() + timedelta(days=9))
    for key in (used_key, later):
        key.last_used_at = timezone.now()
        key.save()
    ((to, subject),) = look()
    assert to == [owner.user.email]
    assert subject.startswith("Duty desk: the key nightly ends on ")
    assert look() == []
