"""Telling people about money before it hurts: no price, a quota nearly gone, storage nearly full. Each thing once, by e-mail."""

from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from rftstudio.core.money import show_usd
from rftstudio.teams.models import ApiKey, Role, Team, User
from rftstudio.usage import periods, quotas, reports, scopes, selectors
from rftstudio.usage.models import MonthSum, Notice, Quota, Unit

#: How long before its last day owners are told of a key that is in use.
BEFORE = timedelta(days=7)
#: Shares of a limit at which owners are told.
MARKS = (Decimal("0.8"), Decimal(1))


@transaction.atomic
def notice_once(*, key: str, team: Team | None, title: str, text: str, url: str = "") -> bool:
    """Note it and mail it to the team's owners, or to the administrators; False when it was said before."""
    notice, is_new = Notice.objects.get_or_create(
        key=key[:300], defaults={"team": team, "title": title[:200], "text": text, "url": url}
    )
    if is_new:
        transaction.on_commit(lambda: _mail(notice))
    return is_new


def _mail(notice: Notice) -> None:
    """Whoever cannot be reached finds it on the page all the same, so a mail server that fails stops nothing."""
    people = _owners(notice.team) if notice.team else User.objects.filter(is_superuser=True)
    addresses = list(people.filter(is_active=True, is_service=False).values_list("email", flat=True))
    if not settings.EMAIL_HOST or not addresses:
        return
    link = (
        f"\n\n{settings.STUDIO_PUBLIC_URL.rstrip('/')}{notice.url}" if settings.STUDIO_PUBLIC_URL and notice.url else ""
    )
    sent = sum(send_mail(notice.title, notice.text + link, None, [one], fail_silently=True) for one in addresses)
    Notice.objects.filter(pk=notice.pk).update(recipients=sent)


def _owners(team: Team):
    return User.objects.filter(memberships__team=team, memberships__role=Role.OWNER)


def notices_look(*, now: datetime | None = None) -> int:
    """Look for what people should know; returns how much was new."""
    now = now or timezone.now()
    return _prices_missing(now) + _quotas_near(now) + _storage_near(now) + _keys_ending(now)


def _prices_missing(now: datetime) -> int:
    """Once a month for each unit and subject, to the administrators, who set prices."""
    since = periods.last_month(now.date())
    if not MonthSum.objects.filter(unpriced__gt=0, month__gte=since).exists():
        return 0
    new = 0
    for one in reports.unpriced_subjects():
        unit = Unit(one["unit"]).label.lower()
        new += notice_once(
            key=f"unpriced/{now:%Y-%m}/{one['unit']}/{one['subject']}",
            team=None,
            title=f"No price for {one['subject']}",
            text=f"{one['lines']:,} ledger lines count {one['subject']} by the {unit} and have no price: their cost is missing "
            f"from every sum and no quota stops it. A price that reaches back prices them by new lines.",
            url=reverse("admin:usage_price_add"),
        )
    return new


def _quotas_near(now: datetime) -> int:
    new = 0
    for line in quotas.near_limits(now=now):
        quota, budget = line.quota, line.budget
        mark = max(mark for mark in MARKS if Decimal(str(budget.share)) >= mark)
        left = f"passed it by {show_usd(budget.over)}" if budget.over else f"has {show_usd(budget.left)} left"
        new += notice_once(
            key=f"quota/{quota.team_id}/{quota.scope}/{budget.month:%Y-%m}/{mark}",
            team=quota.team,
            title=f"{quota.team}: {'nothing is left' if mark == 1 else 'little is left'} this month",
            text=f"Of {show_usd(budget.quota)} for {quota.words} in {budget.month:%B}, {show_usd(budget.spent)} are spent and "
            f"{show_usd(budget.held)} held: it {left}.",
            url=reverse("usage:cost-list", args=[quota.team.slug]),
        )
    return new


def _storage_near(now: datetime) -> int:
    new = 0
    for quota in Quota.objects.filter(scope=scopes.TEAM, storage_gb__gt=0).select_related("team"):
        kept, at = selectors.storage_measured(team=quota.team)
        share = Decimal(kept) / (quota.storage_gb * 10**9)
        reached = [mark for mark in MARKS if share >= mark]
        if not reached or at is None:
            continue
        new += notice_once(
            key=f"storage/{quota.pk}/{now:%Y-%m}/{reached[-1]}",
            team=quota.team,
            title=f"{quota.team}: storage is {'full' if reached[-1] == 1 else 'nearly full'}",
            text=f"{quota.team} keeps {kept / 1e9:.2f} GB of {quota.storage_gb.normalize():f} GB. Beyond the limit uploads are "
            f"refused. Delete what is no longer needed: files, and checkpoints of old jobs.",
            url=reverse("usage:quota-list", args=[quota.team.slug]),
        )
    return new


def _keys_ending(now: datetime) -> int:
    new = 0
    keys = ApiKey.objects.filter(
        expires_at__gt=now, expires_at__lte=now + BEFORE, revoked_at=None, last_used_at__isnull=False
    )
    for key in keys.select_related("team", "acts_as"):
        if not key.is_usable:
            continue
        day = key.expires_at.astimezone(key.team.zone)
        new += notice_once(
            key=f"key/{key.public_id}",
            team=key.team,
            title=f"{key.team}: the key {key.name} ends on {day.day} {day:%B}",
            text=f"The API key {key.name} (…{key.hint}) is in use and ends on {day.day} {day:%B %Y}, {day:%H:%M} {key.team.zone.key}. "
            f"Make another and exchange it where it is used.",
            url=reverse("teams:key-list", args=[key.team.slug]),
        )
    return new
