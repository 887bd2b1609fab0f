"""Mails to people: their job has ended, a job waits for their approval. Only where a mail server is set up."""

from django.conf import settings
from django.core.mail import send_mail
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job
from rftstudio.notify.models import Event, EventType, Mail, MailChoice
from rftstudio.teams.models import Membership, Role, User

_ENDED = {EventType.JOB_SUCCEEDED, EventType.JOB_FAILED, EventType.JOB_CANCELLED}


def mails_make(*, event: Event) -> None:
    """A row for each person who is to be told."""
    if settings.EMAIL_HOST:
        rows = [Mail(event=event, user=user) for user in _people(event)]
        Mail.objects.bulk_create(rows, ignore_conflicts=True)


def _people(event: Event) -> list[User]:
    """Whoever launched a job that ended; the owners when a job waits for approval. Members only, and who wants it."""
    members = Membership.objects.filter(team=event.team, user__is_active=True, user__is_service=False)
    if event.type in _ENDED:
        column, members = "job_ended", members.filter(user__in=_launchers(event))
    elif event.type == EventType.APPROVAL_ASKED:
        column, members = "approval_asked", members.filter(role=Role.OWNER)
    else:
        return []
    unwanted = MailChoice.objects.filter(team=event.team, **{column: False}).values("user")
    return [member.user for member in members.exclude(user__in=unwanted).select_related("user")]


def _launchers(event: Event) -> list[int]:
    by = Job.objects.filter(team=event.team, public_id=event.object_id).values_list("created_by", flat=True)
    return [pk for pk in by if pk is not None]


def mails_send(*, event: Event) -> int:
    """Send what waits. A row is marked before its mail goes out: a crash between costs a mail, never doubles one."""
    sent = 0
    for mail in Mail.objects.filter(event=event, sent_at=None).select_related("user"):
        if Mail.objects.filter(pk=mail.pk, sent_at=None).update(sent_at=timezone.now()) == 1:
            sent += send_mail(
                f"{event.title} · {event.team}", _text(event), None, [mail.user.email], fail_silently=True
            )
    return sent


def _text(event: Event) -> str:
    base = settings.STUDIO_PUBLIC_URL.rstrip("/")
    if event.type == EventType.APPROVAL_ASKED:
        path, what = reverse("usage:cost-list", args=[event.team.slug]), "Approve or decline it under Costs"
    else:
        path, what = reverse("jobs:job-detail", args=[event.team.slug, event.object_id]), "See the job"
    where = f"{base}{path}" if base else f"RFT Studio, {path}"
    choice = reverse("notify:notice-list", args=[event.team.slug])
    return f"{event.title}.\n\n{what}:\n{where}\n\nWhich mails you get is chosen under Notices ({base}{choice})."
