"""A person's own pages: sessions, new password, lost password."""

import re

import pytest
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from rftstudio.teams.models import UserSession

OLD, NEW = "correct horse battery", "another long password"
ACCOUNT, LOG_IN = "/account/", "/log-in/"


@pytest.fixture
def browsers(member):
    """Two browsers in which the member is logged in."""
    made = [Client(headers={"User-Agent": name}) for name in ("Firefox", "Safari")]
    for one in made:
        one.post(LOG_IN, {"username": member.user.email, "password": OLD})
    return made


def test_sessions_are_listed_and_ended(browsers):
    here, there = browsers
    page = here.get(ACCOUNT)
    assert [row.agent for row in page.context["sessions"]] == ["Safari", "Firefox"]
    here.post(reverse("teams:session-end", args=[UserSession.objects.get(agent="Safari").pk]))
    assert there.get(ACCOUNT).status_code == 302
    assert [row.agent for row in here.get(ACCOUNT).context["sessions"]] == ["Firefox"]


def test_session_of_another_person_cannot_be_ended(browsers, stranger, client_of):
    row = UserSession.objects.first()
    assert client_of(stranger).post(reverse("teams:session-end", args=[row.pk])).status_code == 404
    assert browsers[0].get(ACCOUNT).status_code == 200


def test_new_password_ends_every_other_session(browsers, member):
    here, there = browsers
    given = {"old_password": OLD, "new_password1": NEW, "new_password2": NEW}
    assert here.post(ACCOUNT, given | {"old_password": "wrong"}).status_code == 422
    assert here.post(ACCOUNT, given | {"new_password1": "short", "new_password2": "short"}).status_code == 422
    assert here.post(ACCOUNT, given).status_code == 302
    assert here.get(ACCOUNT).status_code == 200
    assert there.get(ACCOUNT).status_code == 302
    assert [row.agent for row in here.get(ACCOUNT).context["sessions"]] == ["Firefox"]
    member.user.refresh_from_db()
    assert member.user.check_password(NEW)


def test_lost_password_is_set_by_mail_and_says_the_same_to_strangers(browsers, member, client, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    url = reverse("teams:password-reset")
    answers = [
        client.post(url, {"email": email}, follow=True).content for email in (member.user.email, "x@example.com")
    ]
    assert answers[0] == answers[1]
    assert len(mail.outbox) == 1
    link = re.search(r"https?://[^/]+(/password/\S+)", mail.outbox[0].body).group(1)
    form = client.get(link, follow=True).redirect_chain[-1][0]
    assert client.post(form, {"new_password1": "short", "new_password2": "short"}).status_code == 200
    client.post(form, {"new_password1": NEW, "new_password2": NEW})
    member.user.refresh_from_db()
    assert member.user.check_password(NEW)
    assert browsers[0].get(ACCOUNT).status_code == 302, "old sessions have ended"
    assert b"too old" in client.get(link, follow=True).content


def test_closed_account_is_out_at_once(browsers, member):
    member.user.is_active = False
    member.user.save()
    assert browsers[0].get(ACCOUNT).status_code == 302


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18 Safari/604", "Safari on iPhone"),
        ("curl/8.5", "curl"),
        ("", ""),
    ],
)  # fmt: skip
def test_session_is_told_in_words(agent, words):
    assert UserSession(agent=agent).words == words


def test_mailbox_is_not_flooded_with_links(member, client, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    cache.clear()
    for _ in range(8):
        answer = client.post(reverse("teams:password-reset"), {"email": member.user.email})
        assert answer.status_code == 302
    assert len(mail.outbox) == 5
