"""Invitations, roles, removal, service accounts; a team always keeps an owner."""

from datetime import timedelta

import pytest
import time_machine
from django.core import mail
from django.urls import reverse
from django.utils import timezone

from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams import services
from rftstudio.teams.models import AuditEvent, Invitation, Membership, User
from rftstudio.teams.permissions import Permission, can
from tests.conftest import actor_in
from tests.factories.teams import UserFactory

GOOD = "plain words of mine"


def invite(owner, email="new@example.com", role="expert") -> str:
    return services.member_invite(actor=owner, email=email, role=role)[1]


def membership_of(actor) -> Membership:
    return Membership.objects.get(team=actor.team, user=actor.user)


def test_invitation_is_shown_once_as_a_link_and_stored_as_a_hash(team, owner, client_of):
    url = reverse("teams:member-list", args=[team.slug])
    answer = client_of(owner).post(url, {"email": " New@Example.com", "role": "engineer"})
    token = answer.context["link"].rstrip("/").rsplit("/", 1)[1]
    invitation = Invitation.objects.get()
    assert (invitation.email, invitation.role) == ("new@example.com", "engineer")
    assert token not in str(Invitation.objects.values().get())
    assert token.encode() in answer.content
    assert b"hand this link over" in answer.content
    assert "no-store" in answer.headers["Cache-Control"]
    assert token.encode() not in client_of(owner).get(url).content
    assert token not in str(AuditEvent.objects.get(verb="member.invited").data)


def test_invitation_is_mailed_where_a_mail_server_is_set_up(team, owner, client_of, settings):
    settings.EMAIL_HOST, settings.EMAIL_BACKEND = "mail.example", "django.core.mail.backends.locmem.EmailBackend"
    url = reverse("teams:member-list", args=[team.slug])
    answer = client_of(owner).post(url, {"email": "new@example.com", "role": "expert"})
    assert answer.context["link"] in mail.outbox[0].body
    assert mail.outbox[0].to == ["new@example.com"]
    assert b"on its way" in answer.content


def test_invited_person_makes_an_account_and_is_in(team, owner, client):
    url = reverse("teams:invitation-accept", args=[invite(owner)])
    assert b"Make an account and join" in client.get(url).content
    answer = client.post(url, {"name": "Ann Lee", "password1": GOOD, "password2": GOOD}, follow=True)
    assert answer.redirect_chain[-1][0] == reverse("teams:home", args=[team.slug])
    user = User.objects.get(email="new@example.com")
    assert (str(user), membership_of_user(user).role, user.is_staff) == ("Ann Lee", "expert", False)
    assert client.get(url).status_code == 404, "works once"


def membership_of_user(user) -> Membership:
    return Membership.objects.get(user=user)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("short", "short", b"too short"),
        ("password123", "password123", b"too common"),
        (GOOD, GOOD + "x", b"match"),
    ],
)
def test_invited_persons_password_follows_the_rules(owner, client, first, second, words):
    url = reverse("teams:invitation-accept", args=[invite(owner)])
    answer = client.post(url, {"password1": first, "password2": second})
    assert answer.status_code == 422
    assert words in answer.content
    assert not User.objects.filter(email="new@example.com").exists()


def test_invited_person_with_an_account_logs_in_to_join(team, owner, stranger, client_of, client):
    token = invite(owner, stranger.user.email)
    url = reverse("teams:invitation-accept", args=[token])
    assert b"Log in to join" in client.get(url).content
    client.post(url, {"password1": GOOD, "password2": GOOD})
    assert not Membership.objects.filter(team=team, user=stranger.user).exists()
    client_of(stranger).post(url)
    assert Membership.objects.get(team=team, user=stranger.user).role == "expert"


def test_invitation_for_somebody_else_cannot_be_used(team, owner, stranger, client_of):
    token = invite(owner)
    url = reverse("teams:invitation-accept", args=[token])
    browser = client_of(stranger)
    assert b"only new@example.com can use this link" in browser.post(url).content
    with pytest.raises(Conflict):
        services.invitation_accept(token=token, user=stranger.user)
    assert not Membership.objects.filter(team=team, user=stranger.user).exists()
    browser.post(url, {"log_out": "1"})
    assert b"Make an account and join" in browser.get(url).content


def test_invitation_ends_by_time_by_hand_and_by_a_newer_one(team, owner, client, client_of):
    with time_machine.travel(timezone.now() - timedelta(days=8)):
        old = invite(owner, "old@example.com")
    first, second = invite(owner), invite(owner)
    third = invite(owner, "third@example.com")
    taken = Invitation.objects.get(email="third@example.com")
    client_of(owner).post(reverse("teams:invitation-revoke", args=[team.slug, taken.public_id]))
    client.logout()
    for token, status in ((old, 404), (first, 404), (second, 200), (third, 404), ("guess", 404)):
        assert client.get(reverse("teams:invitation-accept", args=[token])).status_code == status


def test_invitation_of_a_member_or_nonsense_is_refused(owner, member):
    with pytest.raises(Conflict, match="is a member already"):
        invite(owner, member.user.email)
    for email, role in (("nonsense", "expert"), ("a@example.com", "king")):
        with pytest.raises(UserError):
            invite(owner, email, role)


def test_people_are_managed_by_owners_only(team, owner, member, stranger, client_of):
    row, token = membership_of(member), services.member_invite(actor=owner, email="x@example.com", role="viewer")[0]
    doors = {
        "member-list": ([], {"email": "y@example.com", "role": "owner"}),
        "member-role": ([row.pk], {"role": "owner"}),
        "member-remove": ([row.pk], {}),
        "service-account-new": ([], {"name": "robot", "role": "engineer"}),
        "invitation-revoke": ([token.public_id], {}),
    }
    for name, (args, given) in doors.items():
        url = reverse(f"teams:{name}", args=[team.slug, *args])
        assert client_of(member).post(url, given).status_code == 403, name
        assert client_of(stranger).post(url, given).status_code == 404, name
        if args:
            foreign = reverse(f"teams:{name}", args=[stranger.team.slug, *args])
            assert client_of(stranger).post(foreign, given).status_code == 404, name
    row.refresh_from_db()
    assert row.role == "engineer"


def test_role_is_set_and_noted(team, owner, member, client_of):
    row = membership_of(member)
    client_of(owner).post(reverse("teams:member-role", args=[team.slug, row.pk]), {"role": "viewer"})
    row.refresh_from_db()
    assert row.role == "viewer"
    assert AuditEvent.objects.get(verb="member.role_set").data["role"] == ["engineer", "viewer"]


def test_last_owner_stays(team, owner, client_of):
    row = membership_of(owner)
    for deed in (
        lambda: services.member_role_set(actor=owner, membership=row, role="viewer"),
        lambda: services.member_remove(actor=owner, membership=row),
    ):
        with pytest.raises(Conflict, match="last owner"):
            deed()
    page = client_of(owner).post(reverse("teams:member-remove", args=[team.slug, row.pk]), follow=True)
    assert b"last owner" in page.content
    second = actor_in(team, "owner")
    services.member_role_set(actor=second, membership=row, role="viewer")
    with pytest.raises(Conflict):
        services.member_remove(actor=second, membership=membership_of(second))


def test_removed_member_sees_nothing_more(team, owner, member, client_of):
    services.member_remove(actor=owner, membership=membership_of(member))
    assert client_of(member).get(reverse("teams:home", args=[team.slug])).status_code == 404
    with pytest.raises(NotFound):
        services.member_remove(actor=owner, membership=Membership(pk=999, team=team, user=member.user))


def test_service_account_owns_keys_spends_under_its_name_and_cannot_log_in(team, owner, client):
    made = services.service_account_create(actor=owner, name="nightly", role="engineer")
    assert not made.user.has_usable_password()
    key, secret = services.api_key_create(actor=owner, name="k", acts_as=made.user)
    answer = client.get("/v1/models", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 200
    services.member_remove(actor=owner, membership=made)
    key.refresh_from_db()
    assert not key.is_usable


def test_service_account_is_no_owner_and_of_this_team(owner, stranger):
    with pytest.raises(UserError):
        services.service_account_create(actor=owner, name="x", role="owner")
    foreign = services.service_account_create(actor=stranger, name="x", role="viewer")
    with pytest.raises(NotFound):
        services.api_key_create(actor=owner, name="k", acts_as=foreign.user)
    with pytest.raises(NotFound):
        services.api_key_create(actor=owner, name="k", acts_as=UserFactory())


def test_key_of_a_service_account_never_has_more_rights_than_it(team, owner, client):
    made = services.service_account_create(actor=owner, name="reader", role="expert")
    with pytest.raises(UserError, match="its key cannot be engineer"):
        services.api_key_create(actor=owner, name="k", role="engineer", acts_as=made.user)
    key, secret = services.api_key_create(actor=owner, name="k", role="expert", acts_as=made.user)
    services.member_role_set(actor=owner, membership=made, role="viewer")
    key.refresh_from_db()
    assert key.role == "viewer"
    services.member_role_set(actor=owner, membership=made, role="engineer")
    key.refresh_from_db()
    assert key.role == "viewer", "more is given by a new key only"
    root = UserFactory(is_superuser=True)
    services.account_switch(by=root, user=made.user, is_active=False)
    assert client.get("/v1/models", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    services.account_switch(by=root, user=made.user, is_active=True)
    assert client.get("/v1/models", headers={"Authorization": f"Bearer {secret}"}).status_code == 200


def test_keys_that_a_removed_member_made_are_named(team, owner, client_of):
    other = actor_in(team, "owner")
    services.api_key_create(actor=other, name="k")
    page = client_of(owner).post(reverse("teams:member-remove", args=[team.slug, membership_of(other).pk]), follow=True)
    assert b"One API key that they made still works" in page.content


def test_viewer_sees_no_money_on_the_page_of_keys(team, owner, viewer, client_of):
    from decimal import Decimal

    services.api_key_create(actor=owner, name="k", budget_usd=Decimal("12.34"))
    url = reverse("teams:key-list", args=[team.slug])
    assert b"12.34" in client_of(owner).get(url).content
    assert b"12.34" not in client_of(viewer).get(url).content


# -- keys -------------------------------------------------------------------------------------------------------------


def by_key(owner, **options):
    key, _ = services.api_key_create(actor=owner, name="k", **options)
    return type(owner)(team=owner.team, role=key.role, api_key=key)


def test_key_narrowed_to_rights_has_no_others(owner):
    actor = by_key(owner, scopes=["view", "label"])
    assert [can(actor, right) for right in (Permission.VIEW, Permission.LABEL, Permission.JOB_LAUNCH)] == [
        True,
        True,
        False,
    ]
    from rftstudio.teams.permissions import check_can

    with pytest.raises(NotAllowed, match="This key may not do this"):
        check_can(actor, Permission.JOB_LAUNCH, team=owner.team)


def test_key_never_manages_people_keys_or_money(owner):
    actor = by_key(owner, role="owner")
    assert can(actor, Permission.JOB_LAUNCH)
    assert not any(can(actor, right) for right in ("key_manage", "team_manage", "budget_approve"))


def test_key_form_narrows_dates_and_budgets(team, owner, client_of):
    url = reverse("teams:key-list", args=[team.slug])
    given = {"name": "ci", "role": "engineer", "scopes": ["view", "evaluation_run"], "expires_at": "2099-01-31",
             "budget_usd": "12.50"}  # fmt: skip
    assert client_of(owner).post(url, given).status_code == 200
    key = team.api_keys.get()
    assert (key.scopes, str(key.budget_usd), key.expires_at.date().isoformat()) == (
        ["evaluation_run", "view"], "12.50", "2099-01-31",
    )  # fmt: skip
    for wrong in ({"budget_usd": "-1"}, {"expires_at": "2001-01-01"}, {"scopes": ["team_manage"]}, {"acts_as": "1"}):
        assert client_of(owner).post(url, given | wrong).status_code == 422, wrong
    assert team.api_keys.count() == 1


def test_key_budget_is_a_quota(owner):
    from decimal import Decimal

    from rftstudio.core.errors import QuotaExceeded
    from rftstudio.usage.services import reservation_hold

    actor = by_key(owner, budget_usd=Decimal("2.00"))
    reservation_hold(actor=actor, source="ftjob-1", kind="job", label="Job 1", amount="1.50")
    with pytest.raises(QuotaExceeded, match=r"key k has \$0\.50 left"):
        reservation_hold(actor=actor, source="ftjob-2", kind="job", label="Job 2", amount="0.60")


# -- audit log --------------------------------------------------------------------------------------------------------


def test_audit_log_is_searched_and_exported_by_owners(team, owner, member, stranger, client_of):
    services.api_key_create(actor=owner, name="nightly")
    services.member_role_set(actor=owner, membership=membership_of(member), role="viewer")
    url = reverse("teams:audit-list", args=[team.slug])
    page = client_of(owner).get(url, {"verb": "api_key"})
    assert [event.verb for event in page.context["events"]] == ["api_key.created"]
    assert client_of(owner).get(url, {"who": owner.user.email}).context["events"]
    assert not client_of(owner).get(url, {"who": "nobody"}).context["events"]
    assert not client_of(owner).get(url, {"to": "2001-01-01"}).context["events"]
    export = client_of(owner).get(reverse("teams:audit-export", args=[team.slug]))
    assert b"member.role_set" in b"".join(export.streaming_content)
    for name in ("audit-list", "audit-export"):
        url = reverse(f"teams:{name}", args=[team.slug])
        assert client_of(member).get(url).status_code == 403
        assert client_of(stranger).get(url).status_code == 404


def test_audit_days_are_the_teams_own(team, owner, client_of):
    team.time_zone = "Asia/Kolkata"
    team.save()
    for at in ("2026-11-19T18:29:59Z", "2026-11-19T18:30:00Z", "2026-11-20T18:29:59Z", "2026-11-20T18:30:00Z"):
        with time_machine.travel(at, tick=False):
            services.audit(owner, "thing.done", note=at)
    browser = client_of(owner)
    query = {"verb": "thing", "from": "2026-11-20", "to": "2026-11-20"}
    page = browser.get(reverse("teams:audit-list", args=[team.slug]), query)
    assert [event.data["note"] for event in page.context["events"]] == ["2026-11-20T18:29:59Z", "2026-11-19T18:30:00Z"]
    assert b"Asia/Kolkata" in page.content
    export = browser.get(reverse("teams:audit-export", args=[team.slug]), query)
    assert b"2026-11-20T00:00:00+05:30" in b"".join(export.streaming_content)


def test_audit_log_walks_all_pages(team, owner, client_of):
    for n in range(60):
        services.audit(owner, f"thing.{n}")
    url, seen, query = reverse("teams:audit-list", args=[team.slug]), [], ""
    while True:
        page = client_of(owner).get(url + query)
        seen += [event.pk for event in page.context["events"]]
        if not (query := page.context["next_url"]):
            break
    assert len(seen) == len(set(seen)) == AuditEvent.objects.filter(team=team).count()
