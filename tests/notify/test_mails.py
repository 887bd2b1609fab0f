"""Mails: to whoever launched, to owners, to who wants it, once; and none where no mail server is set up."""

import pytest
from django.core import mail

from rftstudio.notify.services import mail_choice_set, notices_sweep
from rftstudio.usage.models import Approval

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _server(settings):
    settings.EMAIL_HOST = "mail.example.com"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    settings.STUDIO_PUBLIC_URL = "https://studio.example.com"


def test_whoever_launched_is_told_once_that_a_job_ended(ended, member, owner):
    job = ended("failed")
    notices_sweep()
    notices_sweep()
    told = [one for one in mail.outbox if "Job 1" in one.subject]
    assert [one.to for one in told] == [[member.user.email]]
    assert "Job 1 failed" in told[0].body
    assert f"https://studio.example.com/t/duty-desk/jobs/{job.public_id}/" in told[0].body


def test_owners_are_asked_for_an_approval(team, owner, member, viewer, ended):
    Approval.objects.create(team=team, source="ftjob-1", label="Job 7", amount_usd=42)
    notices_sweep()
    asked = [one for one in mail.outbox if "asks for $42.00" in one.subject]
    assert [one.to for one in asked] == [[owner.user.email]]


def test_who_does_not_want_it_is_left_alone(ended, member, owner, team):
    mail_choice_set(actor=member, job_ended=False, approval_asked=True)
    mail_choice_set(actor=owner, job_ended=True, approval_asked=False)
    ended()
    Approval.objects.create(team=team, source="ftjob-1", label="Job 7", amount_usd=42)
    notices_sweep()
    assert mail.outbox == []


def test_former_members_are_not_told(ended, member):
    member.user.memberships.all().delete()
    ended()
    notices_sweep()
    assert mail.outbox == []


def test_without_a_mail_server_nothing_is_made(ended, settings):
    settings.EMAIL_HOST = ""
    ended()
    notices_sweep()
    assert mail.outbox == []
