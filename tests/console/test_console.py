"""The console: who gets in, what is read-only, what its actions do."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from allauth.mfa.totp.internal.auth import TOTP
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.urls import reverse

from rftstudio.teams.models import ApiKey, AuditEvent
from rftstudio.teams.services import api_key_create
from rftstudio.usage.models import Approval, LedgerLine, MonthSum, Price, Quota, Reservation, StopSwitch
from rftstudio.usage.services import quota_set
from tests.factories.teams import UserFactory
from tests.usage.world import month_of_spend


@pytest.fixture
def asked(owner, member) -> Approval:
    return month_of_spend(owner, member)


@pytest.fixture
def root(db):
    return UserFactory(is_staff=True, is_superuser=True)


@pytest.fixture
def console(client, root):
    client.force_login(root, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_console_asks_strangers_and_members_to_log_in(client, owner, client_of):
    answer = client.get(reverse("admin:index"), follow=True)
    assert answer.redirect_chain[-1][0].startswith(reverse("teams:log-in"))
    answer = client_of(owner).get(reverse("admin:index"), follow=True)
    assert answer.redirect_chain[-1][0] == reverse("teams:home", args=[owner.team.slug])


def test_console_shows_money_to_administrators_only(asked, console, root):
    page = console.get(reverse("admin:index"))
    for words in (b"Duty desk", b"Near a limit", b"Waiting for a decision", b"Stop switches", b"model-x"):
        assert words in page.content
    root.is_superuser = False
    root.save()
    page = console.get(reverse("admin:index"))
    assert page.status_code == 200
    assert b"Duty desk" not in page.content


@pytest.mark.parametrize("by", ["team", "job", "model", "member", "category"])
def test_console_regroups_spend_and_leads_to_its_lines(asked, console, by):
    page = console.get(reverse("admin:index"), {"by": by})
    url = page.context["rows"][0]["url"]
    assert console.get(url).status_code == 200
    bar = page.context["figure"]["data"][0]["customdata"][-1]
    assert console.get(bar).status_code == 200


def test_every_list_and_row_of_the_admin_opens(asked, console, owner):
    api_key_create(actor=owner, name="nightly")
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        assert console.get(reverse(f"{name}_changelist")).status_code == 200
        row = model._default_manager.first()
        if row is not None:
            assert console.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200, model


@pytest.mark.parametrize("model", [LedgerLine, Reservation, MonthSum, Approval, AuditEvent, Price, ApiKey, StopSwitch])
def test_history_and_money_cannot_be_edited(model, console, owner, asked):
    api_key_create(actor=owner, name="nightly")
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    row = model.objects.first()
    if row is not None:
        assert console.post(reverse(f"{name}_change", args=[row.pk]), {}).status_code == 403
        assert console.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    if model is not Price:
        assert console.get(reverse(f"{name}_add")).status_code == 403


def test_key_digest_is_not_shown(console, owner):
    key, _ = api_key_create(actor=owner, name="nightly")
    page = console.get(reverse("admin:teams_apikey_change", args=[key.pk]))
    assert key.digest.encode() not in page.content


def test_price_is_added_as_it_is_sold_and_prices_what_had_none(asked, console, team):
    answer = console.post(
        reverse("admin:usage_price_add"),
        {"unit": "output_token", "subject": "model-x", "sold": "10", "valid_from": "2020-01-01T00:00",
         "note": "list of June"},
    )  # fmt: skip
    assert answer.status_code == 302, answer.context["errors"]
    price = Price.objects.get(subject="model-x")
    assert (price.usd, price.valid_from) == (Decimal("0.00001"), datetime(2020, 1, 1, tzinfo=UTC))
    assert LedgerLine.objects.get(kind="corrected").usd == Decimal("0.12")


def test_quota_is_set_through_the_service(console, root, team, owner):
    url = reverse("admin:usage_quota_add")
    assert console.post(url, {"team": team.pk, "usd_month": "0.001"}).status_code == 200
    assert not Quota.objects.exists()
    assert console.post(url, {"team": team.pk, "usd_month": "120"}).status_code == 302
    quota = Quota.objects.get()
    change = reverse("admin:usage_quota_change", args=[quota.pk])
    assert console.post(change, {"usd_month": "150.50", "jobs_at_once": "2"}).status_code == 302
    quota.refresh_from_db()
    assert (quota.usd_month, quota.jobs_at_once) == (Decimal("150.50"), 2)
    event = AuditEvent.objects.filter(verb="quota.set").last()
    assert (event.user, event.data["usd_month"]) == (root, ["120.00", "150.50"])


def act(console, model: str, action: str, rows):
    url = reverse(f"admin:{model}_changelist")
    return console.post(url, {"action": action, "_selected_action": [row.pk for row in rows]}, follow=True)


def test_quotas_are_raised_in_bulk(console, owner, member):
    rows = [quota_set(actor=owner, usd_month=Decimal(100)), quota_set(actor=owner, user=member.user, jobs_at_once=1)]
    act(console, "usage_quota", "raise_by_a_fifth", rows)
    assert [quota.usd_month for quota in Quota.objects.order_by("id")] == [120, None]


def test_approvals_in_bulk_leave_doubtful_ones(asked, console):
    page = act(console, "usage_approval", "approve", [asked])
    assert b"Say why it may be spent all the same" in page.content
    asked.refresh_from_db()
    assert asked.status == "waiting"


def test_approval_on_the_front_page_takes_a_reason(asked, console, root):
    url = reverse("admin:approval-decide", args=[asked.public_id, "approve"])
    console.post(url)
    asked.refresh_from_db()
    assert asked.status == "waiting"
    console.post(url, {"reason": "agreed by phone"})
    asked.refresh_from_db()
    assert (asked.status, asked.decided_by, asked.reason) == ("approved", root, "agreed by phone")
    assert Reservation.objects.filter(source=asked.source, user=asked.asked_by).exists()


def test_spending_is_stopped_and_opened_from_the_front_page(console, team):
    url = reverse("admin:stop-set")
    page = console.post(url, {"team": team.slug, "is_on": "1"}, follow=True)
    assert b"Say why" in page.content
    console.post(url, {"team": team.slug, "is_on": "1", "reason": "audit"})
    console.post(url, {"team": "", "is_on": "1", "reason": "fire"})
    assert set(StopSwitch.objects.filter(is_on=True).values_list("team", flat=True)) == {team.pk, None}
    console.post(url, {"team": team.slug})
    console.post(url, {"team": ""})
    assert not StopSwitch.objects.filter(is_on=True).exists()


@pytest.mark.parametrize("name", ["approval-decide", "stop-set"])
def test_doors_of_the_console_refuse_owners_and_staff_without_the_right(name, asked, owner, root, console, client_of):
    args = [asked.public_id, "approve"] if name == "approval-decide" else []
    given = {"reason": "x", "is_on": "1", "team": asked.team.slug}
    root.is_superuser = False
    root.save()
    console.post(reverse(f"admin:{name}", args=args), given)
    client_of(owner).post(reverse(f"admin:{name}", args=args), given)
    asked.refresh_from_db()
    assert asked.status == "waiting"
    assert not StopSwitch.objects.filter(is_on=True).exists()


def test_accounts_are_closed_and_opened_in_bulk(console, root, member, client):
    act(console, "teams_user", "close", [member.user, root])
    member.user.refresh_from_db()
    root.refresh_from_db()
    assert (member.user.is_active, root.is_active) == (False, True)
    assert AuditEvent.objects.filter(verb="account.closed", team=member.team, user=root).exists()
    act(console, "teams_user", "reopen", [member.user])
    member.user.refresh_from_db()
    assert member.user.is_active


def test_keys_are_revoked_in_bulk(console, owner):
    key, _ = api_key_create(actor=owner, name="nightly")
    act(console, "teams_apikey", "revoke", [key])
    key.refresh_from_db()
    assert not key.is_usable


def act_on(console, model: str, action: str, *pks) -> object:
    data = {"action": action, "_selected_action": [str(pk) for pk in pks]}
    return console.post(reverse(f"admin:{model}_changelist"), data, follow=True)


def test_staff_with_every_right_of_the_admin_cannot_make_themselves_administrator(client, member):
    staff = UserFactory(is_staff=True)
    staff.user_permissions.set(Permission.objects.all())
    client.force_login(staff, backend="django.contrib.auth.backends.ModelBackend")
    for user in (staff, member.user):
        url = reverse("admin:teams_user_change", args=[user.pk])
        assert client.post(url, {"email": user.email, "is_superuser": "on", "is_staff": "on"}).status_code == 403
    assert client.post(reverse("admin:auth_user_password_change", args=[member.user.pk]), {}).status_code == 403
    for name in ("teams_user_add", "usage_price_add", "usage_quota_add"):
        assert client.get(reverse(f"admin:{name}")).status_code == 403, name
    assert client.post(reverse("admin:teams_team_change", args=[member.team.pk]), {"name": "Mine"}).status_code == 403
    staff.refresh_from_db()
    assert not staff.is_superuser


def test_edited_account_is_noted_and_its_address_is_lower_case(console, member, root):
    url = reverse("admin:teams_user_change", args=[member.user.pk])
    given = {"email": "Ann@Example.com", "first_name": "Ann", "last_name": "Lee"}
    assert console.post(url, given).status_code == 302
    member.user.refresh_from_db()
    assert (member.user.email, member.user.is_active) == ("ann@example.com", True)
    event = AuditEvent.objects.get(verb="account.edited")
    assert (event.user, event.team, event.data["fields"]) == (root, member.team, ["email", "first_name", "last_name"])


def test_team_is_renamed_with_an_audit_line(console, team, root):
    console.post(reverse("admin:teams_team_change", args=[team.pk]), {"name": "Tariff desk"})
    team.refresh_from_db()
    assert (team.name, team.slug) == ("Tariff desk", "duty-desk")
    assert AuditEvent.objects.get(verb="team.renamed").data["name"] == ["Duty desk", "Tariff desk"]


def test_second_factor_is_taken_off_in_the_console(console, member, root):
    TOTP.activate(member.user, "JBSWY3DPEHPK3PXP")
    page = act_on(console, "teams_user", "take_second_factor_off", member.user.pk, root.pk)
    assert b"logs in by password alone now" in page.content
    assert b"turned off on your own page" in page.content
    assert not member.user.authenticator_set.exists()


def test_audit_log_is_exported_over_all_teams(console, owner, stranger):
    for one in (owner, stranger):
        api_key_create(actor=one, name="=nightly()")
    pks = AuditEvent.objects.values_list("pk", flat=True)
    export = b"".join(act_on(console, "teams_auditevent", "export", *pks).streaming_content).decode()
    assert export.splitlines()[0] == "at,team,who,key,verb,object_type,object_id,data"
    assert {line.split(",")[1] for line in export.splitlines()[1:]} == {owner.team.slug, stranger.team.slug}


def test_quota_of_a_job_is_raised_for_the_job(console, owner):
    quota_set(actor=owner, usd_month=Decimal(100))
    row = quota_set(actor=owner, job="ftjob-1", usd_month=Decimal(10))
    act_on(console, "usage_quota", "raise_by_a_fifth", row.pk)
    assert dict(Quota.objects.values_list("scope", "usd_month")) == {"team": Decimal(100), "job:ftjob-1": Decimal(12)}


def test_secrets_of_sign_in_have_no_page_in_the_console(console, member):
    TOTP.activate(member.user, "JBSWY3DPEHPK3PXP")
    page = console.get(reverse("admin:index")).content.decode()
    for name in ("authenticator", "socialapp", "socialtoken", "emailaddress"):
        assert f"/{name}/" not in page


def test_console_may_ask_for_a_second_factor(console, root, member, client_of, settings):
    settings.STUDIO_CONSOLE_TWO_FACTOR = True
    answer = console.get(reverse("admin:usage_quota_changelist"), follow=True)
    assert reverse("mfa_activate_totp") in [url for url, _ in answer.redirect_chain]
    assert console.post(reverse("admin:stop-set"), {"is_on": "1", "reason": "x"}).status_code == 302
    assert not StopSwitch.objects.exists()
    TOTP.activate(root, "JBSWY3DPEHPK3PXP")
    assert console.get(reverse("admin:usage_quota_changelist")).status_code == 200
    answer = client_of(member).get(reverse("admin:index"), follow=True)
    assert answer.redirect_chain[-1][0] == reverse("teams:home", args=[member.team.slug])
