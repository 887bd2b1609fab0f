"""Log-in, home, members and keys through the browser's door."""

import pytest
from django.urls import reverse

from rftstudio.teams import services
from rftstudio.teams.models import ApiKey
from tests.factories.teams import UserFactory

PAGES = ["teams:home", "teams:member-list", "teams:key-list"]


@pytest.mark.parametrize("name", PAGES)
def test_team_page_opens_for_each_member(name, team, viewer, client_of):
    answer = client_of(viewer).get(reverse(name, args=[team.slug]))
    assert answer.status_code == 200
    assert b'aria-current="page"' in answer.content


@pytest.mark.parametrize("name", PAGES)
def test_team_page_is_absent_for_a_stranger(name, team, stranger, client_of):
    answer = client_of(stranger).get(reverse(name, args=[team.slug]))
    assert answer.status_code == 404
    assert b"nothing at this address" in answer.content
    assert team.name.encode() not in answer.content


def test_home_asks_a_visitor_to_log_in(team, client):
    answer = client.get(reverse("teams:home", args=[team.slug]))
    assert answer.status_code == 302
    assert answer.url.startswith(reverse("teams:log-in"))


def test_log_in_leads_to_the_own_team(team, member, client):
    answer = client.post(
        reverse("teams:log-in"),
        {"username": member.user.email.upper(), "password": "correct horse battery"},
        follow=True,
    )
    assert answer.redirect_chain[-1][0] == reverse("teams:home", args=[team.slug])


def test_log_in_with_a_wrong_password_says_so_without_saying_which(member, client):
    answer = client.post(reverse("teams:log-in"), {"username": member.user.email, "password": "wrong"})
    assert b"do not match" in answer.content
    assert b'role="alert"' in answer.content


def test_log_in_is_paused_after_many_wrong_passwords(member, client, settings):
    settings.AXES_ENABLED = True
    settings.AXES_FAILURE_LIMIT = 3
    for _ in range(3):
        answer = client.post(reverse("teams:log-in"), {"username": member.user.email, "password": "wrong"})
    assert answer.status_code == 429
    assert b"Log-in is paused" in answer.content
    right = {"username": member.user.email.upper(), "password": "correct horse battery"}
    assert client.post(reverse("teams:log-in"), right).status_code == 429, "the right password is no way around"
    other = UserFactory()
    assert client.post(reverse("teams:log-in"), right | {"username": other.email}).status_code == 302


def test_home_of_a_person_without_team_explains(client, db):
    client.force_login(UserFactory(), backend="django.contrib.auth.backends.ModelBackend")
    assert b"not in a team yet" in client.get("/").content


def test_log_out_ends_the_session(member, client_of):
    browser = client_of(member)
    browser.post(reverse("teams:log-out"))
    assert browser.get("/").status_code == 302


def test_theme_is_kept_and_shown(team, member, client_of):
    browser = client_of(member)
    answer = browser.post(reverse("teams:theme-set"), {"theme": "dark", "next": f"/t/{team.slug}/"})
    assert answer.url == f"/t/{team.slug}/"
    assert b'data-theme="dark"' in browser.get(answer.url).content


@pytest.mark.parametrize("target", ["https://elsewhere.example/", "//elsewhere.example", ""])
def test_theme_never_leads_to_another_host(target, member, client_of):
    answer = client_of(member).post(reverse("teams:theme-set"), {"theme": "light", "next": target})
    assert answer.url == reverse("teams:home-redirect")


def test_unknown_theme_is_refused(member, client_of):
    assert client_of(member).post(reverse("teams:theme-set"), {"theme": "pink"}).status_code == 400


def test_key_is_shown_once(team, owner, client_of):
    browser = client_of(owner)
    url = reverse("teams:key-list", args=[team.slug])
    answer = browser.post(url, {"name": "nightly", "role": "engineer"})
    key = ApiKey.objects.get(team=team)
    assert answer.context["secret"].endswith(key.hint)
    assert answer.context["secret"].encode() in answer.content
    assert "no-store" in answer.headers["Cache-Control"]
    assert ApiKey.PREFIX.encode() not in browser.get(url).content


def test_key_without_a_name_is_asked_for_one(team, owner, client_of):
    answer = client_of(owner).post(reverse("teams:key-list", args=[team.slug]), {"role": "engineer"})
    assert answer.status_code == 422
    assert b'aria-invalid="true"' in answer.content


def test_key_by_an_engineer_is_refused(team, member, client_of):
    answer = client_of(member).post(reverse("teams:key-list", args=[team.slug]), {"name": "mine", "role": "viewer"})
    assert answer.status_code == 403
    assert b"owner" in answer.content
    assert not ApiKey.objects.exists()


def test_key_with_the_role_of_an_owner_is_refused(team, owner, client_of):
    answer = client_of(owner).post(reverse("teams:key-list", args=[team.slug]), {"name": "all", "role": "owner"})
    assert answer.status_code == 422


def test_revoked_key_no_longer_works(team, owner, client_of):
    key, _ = services.api_key_create(actor=owner, name="old")
    client_of(owner).post(reverse("teams:key-revoke", args=[team.slug, key.public_id]))
    key.refresh_from_db()
    assert not key.is_usable


def test_foreign_key_cannot_be_revoked(team, owner, stranger, client_of):
    from tests.conftest import actor_in

    key, _ = services.api_key_create(actor=actor_in(stranger.team, "owner"), name="theirs")
    answer = client_of(owner).post(reverse("teams:key-revoke", args=[team.slug, key.public_id]))
    assert answer.status_code == 404
    key.refresh_from_db()
    assert key.is_usable
