"""The commands that scripts use."""

import io

import pytest
from django.core.management import CommandError, call_command

from rftstudio.teams.models import ApiKey, AuditEvent, Membership, Team, User, hash_key

pytestmark = pytest.mark.django_db


def run(*argv: str) -> str:
    out = io.StringIO()
    call_command(*argv, stdout=out)
    return out.getvalue()


def test_apikey_create_prints_one_key_and_nothing_else(team):
    printed = run("apikey_create", "--team", team.slug, "--name", "nightly")
    secret = printed.removesuffix("\n")
    assert secret.startswith("rfts-")
    assert not set(secret) & set(" \n")
    key = ApiKey.objects.get(digest=hash_key(secret))
    assert (key.team, key.name, key.role) == (team, "nightly", "engineer")
    assert secret not in str(AuditEvent.objects.get(verb="api_key.created").data)


def test_apikey_create_for_no_team_names_those_there_are(team):
    with pytest.raises(CommandError, match=r"no team 'nobody'. Teams: duty-desk"):
        run("apikey_create", "--team", "nobody", "--name", "x")
    assert not ApiKey.objects.exists()


def test_apikey_create_without_a_name_is_refused(team):
    with pytest.raises(CommandError, match="needs a name"):
        run("apikey_create", "--team", team.slug, "--name", " ")


def test_user_create_makes_a_person_and_a_new_team(monkeypatch):
    monkeypatch.setenv("STUDIO_PASSWORD", "correct horse battery")
    assert "owner of the new team tax-desk" in run("user_create", "Ann@Example.com", "--team", "Tax desk")
    user = User.objects.get(email="ann@example.com")
    assert user.check_password("correct horse battery")
    assert not user.is_staff
    assert Membership.objects.get(user=user).team == Team.objects.get(slug="tax-desk")


def test_user_create_joins_a_team_that_exists(team, monkeypatch):
    monkeypatch.setenv("STUDIO_PASSWORD", "correct horse battery")
    run("user_create", "bo@example.com", "--team", team.slug, "--role", "expert")
    assert Membership.objects.get(user__email="bo@example.com").role == "expert"


def test_user_create_without_a_password_makes_one_that_works(monkeypatch):
    monkeypatch.delenv("STUDIO_PASSWORD", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    password = run("user_create", "cy@example.com").partition("password: ")[2].strip()
    assert User.objects.get(email="cy@example.com").check_password(password)


@pytest.mark.parametrize(
    ("email", "password", "words"),
    [
        ("nonsense", "correct horse battery", "valid email"),
        ("a@example.com", "short", "too short"),
        ("member@example.com", "correct horse battery", "has an account"),
    ],
)
def test_user_create_refuses(monkeypatch, email, password, words):
    User.objects.create_user("member@example.com", "x")
    monkeypatch.setenv("STUDIO_PASSWORD", password)
    with pytest.raises(CommandError, match=words):
        run("user_create", email, "--team", "New")
    assert not Team.objects.exists()
