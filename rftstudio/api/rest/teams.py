"""Who acts, members, invitations, service accounts, keys, the audit log.

Keys never manage members or keys and never approve money: these addresses are for a person's session.
"""

from typing import Any
from zoneinfo import available_timezones

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rftstudio.api.rest import pages
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint, nothing
from rftstudio.api.rest.wire import Empty, Row, Wanted, Wire, example_id
from rftstudio.core.errors import NotFound
from rftstudio.teams import selectors, services
from rftstudio.teams.models import ApiKey, AuditEvent, Invitation, Membership, Role
from rftstudio.teams.permissions import KEY_RIGHTS, Permission, can
from rftstudio.usage.services import time_zone_set

MANAGE = Permission.TEAM_MANAGE


class MeWire(Wire):
    team = serializers.CharField(help_text="The team's id.")
    slug = serializers.CharField()
    name = serializers.CharField()
    role = serializers.CharField()
    time_zone = serializers.CharField()
    rights = serializers.ListField(child=serializers.CharField())
    key = serializers.CharField(allow_null=True, help_text="The key's id; null for a person.")

    example = {
        "team": example_id("team-"), "slug": "duty-desk", "name": "Duty desk", "role": "engineer", "time_zone": "UTC",
        "rights": ["view", "label"], "key": example_id("key-"),
    }  # fmt: skip


class TeamEdit(Wanted):
    time_zone = serializers.CharField(max_length=64, help_text="Days and months of cost are cut in it.")

    example = {"time_zone": "Europe/Berlin"}

    def validate_time_zone(self, value: str) -> str:
        if value not in available_timezones():
            raise serializers.ValidationError("There is no such time zone. Write it as Europe/Berlin.")
        return value


class MemberWire(Wire):
    id = serializers.IntegerField(source="pk")
    email = serializers.CharField(source="user.email")
    name = serializers.SerializerMethodField()
    role = serializers.ChoiceField(Role.values)
    is_service = serializers.BooleanField(source="user.is_service")
    created_at = serializers.DateTimeField()

    example = {
        "id": 4, "email": "ana@example.com", "name": "Ana Ruiz", "role": "owner", "is_service": False,
        "created_at": "2026-11-30T08:00:00Z",
    }  # fmt: skip

    def get_name(self, member: Membership) -> str:
        return str(member.user)


class RoleSet(Wanted):
    role = serializers.ChoiceField(Role.values)

    example = {"role": "expert"}


class InvitationWire(Row):
    email = serializers.CharField()
    role = serializers.ChoiceField(Role.values)
    expires_at = serializers.DateTimeField()

    example = {
        "id": example_id("invite-"), "created_at": "2026-11-30T08:00:00Z", "email": "ben@example.com", "role": "expert",
        "expires_at": "2026-12-07T08:00:00Z",
    }  # fmt: skip


class InvitationMade(InvitationWire):
    link = serializers.CharField(help_text="Shown this once.")
    mailed = serializers.BooleanField(help_text="Whether Studio has mailed it.")

    example = {**InvitationWire.example, "link": "https://studio.example.com/invitations/…/", "mailed": True}


class InvitationNew(Wanted):
    email = serializers.EmailField()
    role = serializers.ChoiceField(Role.values)

    example = {"email": "ben@example.com", "role": "expert"}


class ServiceAccountNew(Wanted):
    name = serializers.CharField(max_length=150)
    role = serializers.ChoiceField(Role.values)

    example = {"name": "Nightly import", "role": "engineer"}


class KeyWire(Row):
    name = serializers.CharField()
    role = serializers.ChoiceField(Role.values)
    hint = serializers.CharField(help_text="The last four characters.")
    scopes = serializers.ListField(child=serializers.CharField())
    budget_usd = serializers.DecimalField(max_digits=12, decimal_places=2, allow_null=True)
    acts_as = serializers.CharField(source="acts_as.email", allow_null=True, default=None)
    is_usable = serializers.BooleanField()
    last_used_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)

    example = {
        "id": example_id("key-"), "created_at": "2026-11-30T08:00:00Z", "name": "CI", "role": "engineer",
        "hint": "x9Qz", "scopes": ["view"], "budget_usd": None, "acts_as": None, "is_usable": True,
        "last_used_at": None, "expires_at": None, "revoked_at": None,
    }  # fmt: skip


class KeyMade(KeyWire):
    secret = serializers.CharField(help_text="The key itself, shown this once.")

    example = {**KeyWire.example, "secret": "rfts-…"}


class KeyNew(Wanted):
    name = serializers.CharField(max_length=80)
    role = serializers.ChoiceField(Role.values, default=Role.ENGINEER)
    scopes = serializers.ListField(child=serializers.ChoiceField(list(KEY_RIGHTS)), default=list)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    budget_usd = serializers.DecimalField(
        max_digits=12, decimal_places=2, min_value=0, required=False, allow_null=True, help_text="A month."
    )
    acts_as = serializers.EmailField(required=False, help_text="Address of a service account.")

    example = {"name": "CI", "scopes": ["view"]}


class AuditWire(Wire):
    id = serializers.IntegerField(source="pk")
    at = serializers.DateTimeField(source="created_at")
    who = serializers.SerializerMethodField()
    key = serializers.CharField(source="api_key.public_id", allow_null=True, default=None)
    verb = serializers.CharField()
    object_type = serializers.CharField(allow_blank=True)
    object_id = serializers.CharField(allow_blank=True)
    data = serializers.JSONField()

    example = {
        "id": 90, "at": "2026-11-30T10:00:00Z", "who": "ana@example.com", "key": None, "verb": "job.launched",
        "object_type": "job", "object_id": example_id("ftjob-"), "data": {"backend": "trl"},
    }  # fmt: skip

    def get_who(self, event: AuditEvent) -> str:
        return event.user.email if event.user else ""


class AuditQuery(serializers.Serializer):
    verb = serializers.CharField(max_length=64, required=False, help_text="Or how it begins: job.")
    who = serializers.CharField(max_length=200, required=False)
    object = serializers.CharField(max_length=64, required=False)
    from_ = serializers.DateField(required=False)
    to = serializers.DateField(required=False)

    def get_fields(self) -> dict[str, serializers.Field]:
        return {name.rstrip("_"): field for name, field in super().get_fields().items()}


class Me(Endpoint):
    def wire(self) -> Response:
        team, actor = self.team, self.actor
        return Response({
            "team": team.public_id, "slug": team.slug, "name": team.name, "role": actor.role,
            "time_zone": team.time_zone, "rights": [right.value for right in Permission if can(actor, right)],
            "key": actor.api_key.public_id if actor.api_key else None,
        })  # fmt: skip

    @describe("me_get", "See for which team you act and what you may do", answers=MeWire)
    def get(self, request: Request) -> Response:
        return self.wire()

    @describe("team_edit", "Set the team's time zone", right=MANAGE, takes=TeamEdit, answers=MeWire, has_condition=True)
    def patch(self, request: Request) -> Response:
        self.request.auth.team.time_zone = time_zone_set(actor=self.actor, **self.values(TeamEdit)).time_zone
        return self.wire()


class Members(Endpoint):
    @describe("member_list", "List members", answers=MemberWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(Membership.objects.filter(team=self.team).select_related("user"), MemberWire)


class Member(Endpoint):
    def member(self) -> Membership:
        return selectors.membership_get(team=self.team, member_id=self.kwargs["member_id"])

    @describe("member_get", "Read a member", answers=MemberWire)
    def get(self, request: Request, member_id: int) -> Response:
        return self.shown(self.member(), MemberWire)

    @describe(
        "member_role_set",
        "Give a member another role",
        right=MANAGE,
        takes=RoleSet,
        answers=MemberWire,
        has_condition=True,
    )
    def patch(self, request: Request, member_id: int) -> Response:
        member, wanted = self.member(), self.values(RoleSet)
        return self.shown(services.member_role_set(actor=self.actor, membership=member, **wanted), MemberWire)

    @describe("member_remove", "Take a member out of the team", right=MANAGE, status=204, has_condition=True)
    def delete(self, request: Request, member_id: int) -> Response:
        services.member_remove(actor=self.actor, membership=self.member())
        return nothing()


class Invitations(Endpoint):
    @describe("invitation_list", "List open invitations", right=MANAGE, answers=InvitationWire, is_list=True)
    def get(self, request: Request) -> Response:
        return self.listed(selectors.invitation_list(team=self.team), InvitationWire)

    @describe("member_invite", "Invite a person", right=MANAGE, takes=InvitationNew, answers=InvitationMade, status=201)
    def post(self, request: Request) -> Response:
        invitation, token = services.member_invite(actor=self.actor, **self.values(InvitationNew))
        link = request.build_absolute_uri(reverse("teams:invitation-accept", args=[token]))
        shown: Any = invitation
        shown.link, shown.mailed = link, services.invitation_send(invitation=invitation, link=link)
        return self.shown(shown, InvitationMade, status=201)


class InvitationDetail(Endpoint):
    @describe("invitation_revoke", "End an invitation", right=MANAGE, status=204)
    def delete(self, request: Request, public_id: str) -> Response:
        invitation: Invitation = selectors.invitation_get(team=self.team, public_id=public_id)
        services.invitation_revoke(actor=self.actor, invitation=invitation)
        return nothing()


class ServiceAccounts(Endpoint):
    @describe(
        "service_account_create", "Make a service account", right=MANAGE, takes=ServiceAccountNew, answers=MemberWire,
        status=201,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        made = services.service_account_create(actor=self.actor, **self.values(ServiceAccountNew))
        return self.shown(made, MemberWire, status=201)


class Keys(Endpoint):
    @describe("key_list", "List keys", answers=KeyWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(ApiKey.objects.filter(team=self.team).select_related("acts_as"), KeyWire)

    @describe("key_create", "Make a key", right=Permission.KEY_MANAGE, takes=KeyNew, answers=KeyMade, status=201)
    def post(self, request: Request) -> Response:
        wanted = self.values(KeyNew)
        if address := wanted.pop("acts_as", None):
            accounts = {user.email: user for user in selectors.service_account_list(team=self.team)}
            if address not in accounts:
                raise NotFound("There is no such service account.", where="acts_as")
            wanted["acts_as"] = accounts[address]
        key, secret = services.api_key_create(actor=self.actor, **wanted)
        shown: Any = key
        shown.secret = secret
        return self.shown(shown, KeyMade, status=201)


class KeyDetail(Endpoint):
    @describe("key_get", "Read about a key", answers=KeyWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(selectors.api_key_get(team=self.team, public_id=public_id), KeyWire)


class KeyRevoke(Endpoint):
    @describe("key_revoke", "End a key at once", right=Permission.KEY_MANAGE, takes=Empty, answers=KeyWire)
    def post(self, request: Request, public_id: str) -> Response:
        key = selectors.api_key_get(team=self.team, public_id=public_id)
        self.values(Empty)
        return self.shown(services.api_key_revoke(actor=self.actor, key=key), KeyWire)


class Audit(Endpoint):
    @describe("audit_list", "List who did what", right=MANAGE, answers=AuditWire, is_paged=True, query=(AuditQuery,))
    def get(self, request: Request) -> Response:
        asked = self.asked(pages.PageQuery, AuditQuery)
        query = {name: str(value) for name, value in asked.items() if name in selectors.AUDIT_FILTERS}
        return self.page(selectors.audit_list(team=self.team, query=query), AuditWire, query=asked)
