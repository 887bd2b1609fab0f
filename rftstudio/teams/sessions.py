"""Where a person is logged in: noted at log-in, listed, ended."""

from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from rftstudio.core.errors import NotFound
from rftstudio.teams.models import User, UserSession


def session_note(request: HttpRequest) -> UserSession | None:
    """Note the session that a log-in has just made, or renewed."""
    if not request.session.session_key:
        request.session.save()
    agent = request.headers.get("User-Agent", "")[:200]
    return UserSession.objects.update_or_create(
        session_key=request.session.session_key,
        defaults={"user": request.user, "address": request.META.get("REMOTE_ADDR") or None, "agent": agent},
    )[0]


def session_list(*, user: User) -> list[UserSession]:
    """Those that still work, newest first; what has ended is forgotten."""
    rows = list(UserSession.objects.filter(user=user).order_by("-id"))
    alive = set(
        Session.objects.filter(
            session_key__in=[row.session_key for row in rows], expire_date__gt=timezone.now()
        ).values_list("session_key", flat=True)
    )
    UserSession.objects.filter(pk__in=[row.pk for row in rows if row.session_key not in alive]).delete()
    return [row for row in rows if row.session_key in alive]


def session_end(*, user: User, session_id: int) -> None:
    """Log out there at once."""
    row = UserSession.objects.filter(user=user, pk=session_id).first()
    if row is None:
        raise NotFound("There is no such session.")
    Session.objects.filter(session_key=row.session_key).delete()
    row.delete()


def sessions_end_others(*, user: User, keep: str) -> int:
    """Log out everywhere but here."""
    rows = UserSession.objects.filter(user=user).exclude(session_key=keep)
    Session.objects.filter(session_key__in=rows.values("session_key")).delete()
    return rows.delete()[0]
