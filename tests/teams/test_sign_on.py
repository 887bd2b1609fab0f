"""Single sign-on against a provider on this machine that speaks OpenID Connect."""

import base64
import hashlib
import json
from urllib.parse import parse_qs, parse_qsl, urlsplit

import jwt
import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from rftstudio.teams import services
from rftstudio.teams.models import AuditEvent, Membership, User, UserSession
from tests.fakes.server import HttpServer, Reply, Request

DOOR, BACK = "/log-in/with/oidc/", "/log-in/with/oidc/back/"


class Provider:
    """Knows one person; gives a token for the code it handed out, and only to whoever shows the PKCE verifier."""

    def __init__(self) -> None:
        self.claims = {"sub": "p-1", "email": "Member@Corp.example", "email_verified": True, "name": "Mia Member"}
        self.challenge = self.broken = ""

    def __call__(self, request: Request) -> Reply:
        if self.broken:
            return Reply(500, b"secret words of the provider")
        path = urlsplit(request.path).path
        if path.endswith("/openid-configuration"):
            return Reply.of({"issuer": self.url, "authorization_endpoint": f"{self.url}/authorize",
                             "token_endpoint": f"{self.url}/token", "userinfo_endpoint": f"{self.url}/me",
                             "jwks_uri": f"{self.url}/keys"})  # fmt: skip
        if path == "/token":
            return self.token(dict(parse_qsl(request.body.decode())), request.headers)
        return Reply.of(self.claims) if path == "/me" else Reply.of({}, 404)

    def token(self, given: dict[str, str], headers: dict[str, str]) -> Reply:
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != self.challenge or given["code"] != "right":
            return Reply.of({"error": "invalid_grant"}, 400)
        claims = self.claims | {"iss": self.url, "aud": "studio", "exp": 2**31}
        return Reply.of({"access_token": "t", "token_type": "Bearer", "id_token": jwt.encode(claims, "x" * 32)})


@pytest.fixture
def provider(settings):
    made = Provider()
    with HttpServer(made) as server:
        made.url = server.url
        settings.STUDIO_OIDC_ISSUER, settings.STUDIO_OIDC_NAME = server.url, "Corp"
        app = {"provider_id": "oidc", "name": "Corp", "client_id": "studio", "secret": "client-secret",
               "settings": {"server_url": server.url}}  # fmt: skip
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
        cache.clear()
        yield made


def there_and_back(provider: Provider, browser: Client, *, code: str = "right", **query: str):
    """What a browser does: to the provider by our door, and back with a code."""
    away = browser.get(DOOR, query)
    sent = parse_qs(urlsplit(away.url).query)
    assert away.url.startswith(f"{provider.url}/authorize")
    provider.challenge = sent["code_challenge"][0]
    return browser.get(BACK, {"code": code, "state": sent["state"][0]})


@pytest.fixture
def known(member) -> User:
    member.user.email = "member@corp.example"
    member.user.save()
    return member.user


def test_verified_address_logs_into_its_account_again_and_again(provider, known, client):
    assert b"Log in with Corp" in client.get("/log-in/").content
    for _ in range(2):
        browser = Client(headers={"User-Agent": "Safari"})
        assert there_and_back(provider, browser, next="/t/duty-desk/keys/").url == "/t/duty-desk/keys/"
        assert browser.get("/t/duty-desk/").status_code == 200
    assert UserSession.objects.filter(user=known, agent="Safari").count() == 2
    assert AuditEvent.objects.filter(verb="account.connected").count() == 1
    known.refresh_from_db()
    assert known.check_password("correct horse battery"), "the password still works"
    assert User.objects.filter(email__iendswith="corp.example").count() == 1


def test_identity_keeps_its_account_when_its_address_changes(provider, known):
    there_and_back(provider, Client())
    provider.claims["email"] = "renamed@corp.example"
    browser = Client()
    there_and_back(provider, browser)
    assert int(browser.session["_auth_user_id"]) == known.pk


def test_address_that_is_not_verified_opens_nothing(provider, known):
    provider.claims["email_verified"] = False
    browser = Client()
    answer = there_and_back(provider, browser)
    assert answer.status_code == 403
    assert b"has not verified your e-mail address" in answer.content
    assert "_auth_user_id" not in browser.session


def test_stranger_at_the_provider_gets_no_account(provider, db):
    answer = there_and_back(provider, Client())
    assert answer.status_code == 403
    assert b"There is no account for member@corp.example here" in answer.content
    assert not User.objects.exists()


def test_invited_person_gets_account_and_team(provider, owner):
    token = services.member_invite(actor=owner, email="member@corp.example", role="expert")[1]
    url = reverse("teams:invitation-accept", args=[token])
    browser = Client()
    assert b"Join with Corp" in browser.get(url).content
    assert there_and_back(provider, browser, next=url).url == f"/t/{owner.team.slug}/"
    made = User.objects.get(email="member@corp.example")
    assert (str(made), made.has_usable_password(), made.is_staff) == ("Mia Member", False, False)
    assert Membership.objects.get(user=made).role == "expert"
    assert browser.get(url).status_code == 404, "the link is used"
    assert b"identity provider" in browser.get("/account/").content
    assert browser.get(reverse("mfa_activate_totp")).status_code == 403


def test_closed_account_stays_closed(provider, known):
    known.is_active = False
    known.save()
    browser = Client()
    assert b"This account is closed" in there_and_back(provider, browser).content
    assert "_auth_user_id" not in browser.session


def test_service_account_is_nobody_who_logs_in(provider, owner):
    made = services.service_account_create(actor=owner, name="robot", role="engineer").user
    provider.claims["email"] = made.email
    assert there_and_back(provider, Client()).status_code == 403


def test_second_factor_is_asked_for_here_too(provider, known):
    from allauth.mfa.totp.internal.auth import TOTP

    TOTP.activate(known, "JBSWY3DPEHPK3PXP")
    browser = Client()
    assert there_and_back(provider, browser).url == reverse("mfa_authenticate")
    assert "_auth_user_id" not in browser.session


@pytest.mark.parametrize(
    ("query", "status"),
    [({"state": "guess", "code": "right"}, 401), ({}, 401), ({"error": "access_denied", "state": "guess"}, 401)],
)
def test_back_without_having_left_is_refused(provider, known, query, status):
    browser = Client()
    assert browser.get(BACK, query).status_code == status
    assert "_auth_user_id" not in browser.session


def test_wrong_code_is_refused_without_its_words(provider, known, caplog):
    answer = there_and_back(provider, Client(), code="stolen")
    assert answer.status_code == 401
    assert b"did not succeed" in answer.content
    assert "stolen" not in caplog.text
    assert "client-secret" not in caplog.text


def test_provider_that_is_away_is_said(provider, known, client):
    provider.broken = "yes"
    answer = client.get(DOOR)
    assert answer.status_code == 503
    assert b"Corp does not answer as it should" in answer.content
    assert b"secret words" not in answer.content


def test_way_back_stays_on_this_host(provider, known):
    assert there_and_back(provider, Client(), next="https://elsewhere.example/").url == "/"


def test_identity_cannot_be_tied_to_another_account(provider, known, stranger, client_of):
    browser = client_of(stranger)
    there_and_back(provider, browser, process="connect")
    assert int(browser.session["_auth_user_id"]) == known.pk
    assert not stranger.user.socialaccount_set.exists()


def test_tokens_are_not_kept(provider, known):
    there_and_back(provider, Client())
    account = known.socialaccount_set.get()
    assert account.uid == "p-1"
    assert not account.socialtoken_set.exists()
    assert "client-secret" not in json.dumps(account.extra_data)
