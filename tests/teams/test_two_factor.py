"""Two-factor log-in: codes of RFC 6238, recovery codes, throttling, and who may take it off."""

import base64
import hashlib
import hmac
import re
import struct
import time

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from rftstudio.core.errors import Conflict, NotAllowed
from rftstudio.teams import services
from rftstudio.teams.models import AuditEvent, UserSession
from tests.factories.teams import UserFactory

PASSWORD, LOG_IN, ACCOUNT = "correct horse battery", "/log-in/", "/account/"
ON, OFF = reverse("mfa_activate_totp"), reverse("mfa_deactivate_totp")
CODES, NEW_CODES = reverse("mfa_view_recovery_codes"), reverse("mfa_generate_recovery_codes")
STEP = reverse("mfa_authenticate")


@pytest.fixture(autouse=True)
def _nothing_counted_before():
    cache.clear()


def code_of(secret: str, *, steps: int = 0) -> str:
    """RFC 6238 with SHA-1, six digits, 30 seconds."""
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", int(time.time()) // 30 + steps), hashlib.sha1)
    at = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[at : at + 4])[0] & 0x7FFFFFFF) % 10**6:06}"


def log_in(mine: Client, user, password: str = PASSWORD, **more):
    return mine.post(LOG_IN, {"username": user.email, "password": password, **more})


def confirm(mine: Client, url: str):
    """Open a page that asks for the password once more."""
    answer = mine.get(url)
    assert answer.url.startswith(reverse("account_reauthenticate")), "the page opened without asking"
    return mine.post(answer.url, {"password": PASSWORD}, follow=True)


def turn_on(mine: Client) -> str:
    page = confirm(mine, ON)
    secret = page.context["form"].secret
    assert mine.post(ON, {"code": code_of(secret)}).status_code == 302
    return secret


@pytest.fixture
def mine(member):
    made = Client()
    log_in(made, member.user)
    return made


def test_code_is_asked_for_after_the_password(mine, member, django_capture_on_commit_callbacks):
    secret = turn_on(mine)
    other = Client(headers={"User-Agent": "Safari"})
    answer = log_in(other, member.user, next="/t/duty-desk/keys/")
    assert answer.url == STEP
    assert other.get(ACCOUNT).status_code == 302, "the password alone does not log in"
    assert not UserSession.objects.filter(agent="Safari").exists()
    wrong = other.post(STEP, {"code": "000000"})
    assert wrong.status_code == 422
    assert b"The code is not right" in wrong.content
    assert other.post(STEP, {"code": code_of(secret, steps=-1)}).url == "/t/duty-desk/keys/"
    assert other.get(ACCOUNT).context["factor"].is_on
    assert UserSession.objects.filter(agent="Safari").exists()


def test_code_works_once(mine, member):
    secret = turn_on(mine)
    code = code_of(secret, steps=1)
    for expected in (302, 422):
        other = Client()
        log_in(other, member.user)
        assert other.post(STEP, {"code": code}).status_code == expected


def test_secret_is_sealed_and_never_shown_again(mine, member):
    secret = turn_on(mine)
    kept = Authenticator.objects.get(user=member.user, type="totp").data["secret"]
    assert secret not in kept
    assert secret.encode() not in mine.get(ACCOUNT).content
    assert secret not in str(list(AuditEvent.objects.values()))
    assert AuditEvent.objects.get(verb="second_factor.turned_on").user == member.user


def test_recovery_code_works_once_and_is_counted(mine, member):
    turn_on(mine)
    codes = mine.get(CODES).context["unused_codes"]
    assert len(set(codes)) == 10
    assert all(re.fullmatch(r"\d{8}", code) for code in codes)
    assert codes[0] in mine.get(reverse("mfa_download_recovery_codes")).content.decode()
    for expected in (302, 422):
        other = Client()
        log_in(other, member.user)
        assert other.post(STEP, {"code": codes[0]}).status_code == expected
    assert mine.get(ACCOUNT).context["factor"].codes_left == 9
    mine.post(NEW_CODES)
    assert not set(mine.get(CODES).context["unused_codes"]) & set(codes)
    assert AuditEvent.objects.filter(verb="second_factor.codes_renewed").count() == 1


def test_wrong_code_turns_nothing_on(mine, member):
    confirm(mine, ON)
    answer = mine.post(ON, {"code": "123456"})
    assert answer.status_code == 422
    assert not Authenticator.objects.exists()


def test_open_browser_is_not_enough_to_change_it(mine, member):
    turn_on(mine)
    other = Client()
    other.force_login(member.user, backend="django.contrib.auth.backends.ModelBackend")
    asked = [other.get(OFF), other.post(OFF), other.get(CODES), other.get(NEW_CODES), other.post(NEW_CODES)]
    assert all(answer.url.startswith(reverse("account_reauthenticate")) for answer in asked)
    assert other.post(reverse("account_reauthenticate"), {"password": "wrong"}).status_code == 422
    assert Authenticator.objects.filter(user=member.user, type="totp").exists()


def test_turned_off_with_the_password(mine, member):
    turn_on(mine)
    assert mine.post(OFF).status_code == 302
    assert not Authenticator.objects.exists()
    assert log_in(Client(), member.user).url == "/"
    assert AuditEvent.objects.filter(verb="second_factor.turned_off").exists()


@pytest.mark.parametrize("door", ["code", "password"])
def test_guesses_are_throttled_like_passwords(mine, member, settings, door):
    turn_on(mine)
    settings.AXES_ENABLED, settings.AXES_FAILURE_LIMIT = True, 3
    other = Client()
    if door == "code":
        log_in(other, member.user)
        url, given = STEP, {"code": "111111"}
    else:
        other.force_login(member.user, backend="django.contrib.auth.backends.ModelBackend")
        url, given = reverse("account_reauthenticate"), {"password": "guess"}
    seen = [other.post(url, given).status_code for _ in range(4)]
    assert seen[-1] == 429, seen
    assert log_in(Client(), member.user).status_code == 429, "counted together"


def test_taken_off_by_an_administrator_only(mine, member, owner):
    turn_on(mine)
    root = UserFactory(is_staff=True, is_superuser=True)
    with pytest.raises(NotAllowed):
        services.second_factor_remove(by=owner.user, user=member.user)
    with pytest.raises(Conflict):
        services.second_factor_remove(by=root, user=root)
    services.second_factor_remove(by=root, user=member.user)
    assert AuditEvent.objects.get(verb="second_factor.taken_off").user == root
    with pytest.raises(Conflict, match="no second factor"):
        services.second_factor_remove(by=root, user=member.user)


def test_new_password_by_mail_does_not_step_around_it(mine, member):
    turn_on(mine)
    member.user.set_password("another long password")
    member.user.save()
    assert log_in(Client(), member.user, "another long password").url == STEP
