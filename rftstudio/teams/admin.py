"""The support desk for people: accounts are opened and closed, never deleted, because money and history point at them."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet
from django.http import StreamingHttpResponse

from rftstudio.core.errors import StudioError
from rftstudio.teams import services
from rftstudio.teams.exports import audit_csv
from rftstudio.teams.look_only import LookOnly
from rftstudio.teams.models import ApiKey, AuditEvent, Membership, Team, User

admin.site.unregister(Group)  # rights come from roles in teams, not from groups
# The sign-in library's own tables hold secrets and doors that are set in the environment only.
for _model in (Authenticator, EmailAddress, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


class UserForm(BaseUserCreationForm):
    class Meta:
        model = User
        fields = ("email",)


@admin.register(User)
class PersonAdmin(UserAdmin):
    add_form = UserForm
    add_fieldsets = ((None, {"fields": ("email", "password1", "password2")}),)
    fieldsets = (
        (None, {"fields": ("email", "password", "first_name", "last_name")}),
        ("Console", {"fields": ("is_active", "is_staff", "is_superuser", "user_permissions")}),
        ("Seen", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("is_active", "last_login", "date_joined")
    list_display = ("email", "first_name", "last_name", "is_active", "is_staff", "last_login")
    list_filter = ("is_active", "is_staff", "teams")
    search_fields = ("email", "first_name", "last_name")
    ordering = ("email",)
    filter_horizontal = ("user_permissions",)
    actions = ("close", "reopen", "take_second_factor_off")

    def has_delete_permission(self, request, obj=None) -> bool:
        return False

    # Whoever edits accounts could make themselves administrator.
    def has_add_permission(self, request) -> bool:
        return request.user.is_superuser

    def has_change_permission(self, request, obj=None) -> bool:
        return request.user.is_superuser

    def save_model(self, request, obj, form, change) -> None:
        obj.email = obj.email.strip().lower()  # as log-in looks for it
        super().save_model(request, obj, form, change)
        if change and form.changed_data:
            services.account_note(obj, "account.edited", by=request.user, fields=sorted(form.changed_data))

    @admin.action(description="Close the chosen accounts and end their sessions", permissions=["change"])
    def close(self, request, queryset: QuerySet[User]) -> None:
        self._switch(request, queryset, is_active=False)

    @admin.action(description="Open the chosen accounts again", permissions=["change"])
    def reopen(self, request, queryset: QuerySet[User]) -> None:
        self._switch(request, queryset, is_active=True)

    @admin.action(description="Take the second factor off (phone and recovery codes lost)", permissions=["change"])
    def take_second_factor_off(self, request, queryset: QuerySet[User]) -> None:
        for user in queryset:
            try:
                services.second_factor_remove(by=request.user, user=user)
                messages.success(request, f"{user.email} logs in by password alone now.")
            except StudioError as exc:
                messages.error(request, f"{user.email}: {exc}")

    def _switch(self, request, queryset: QuerySet[User], *, is_active: bool) -> None:
        for user in queryset:
            try:
                services.account_switch(by=request.user, user=user, is_active=is_active)
                messages.success(request, f"{user.email} is {'open' if is_active else 'closed'}.")
            except StudioError as exc:
                messages.error(request, f"{user.email}: {exc}")


@admin.register(Team)
class TeamAdmin(admin.ModelAdmin):
    list_display = ("name", "slug", "time_zone", "people", "created_at")
    search_fields = ("name", "slug", "public_id")
    readonly_fields = ("public_id", "slug", "time_zone")
    fields = ("name", "slug", "public_id", "time_zone")

    def get_queryset(self, request) -> QuerySet[Team]:
        return super().get_queryset(request).annotate(n_people=Count("memberships"))

    @admin.display(description="people", ordering="n_people")
    def people(self, team: Team) -> int:
        return team.n_people

    def save_model(self, request, obj, form, change) -> None:
        services.team_rename(by=request.user, team=obj, name=form.cleaned_data["name"])

    def has_change_permission(self, request, obj=None) -> bool:
        return request.user.is_superuser

    def has_add_permission(self, request) -> bool:
        return False  # `manage.py user_create --team` makes a team with its first owner

    def has_delete_permission(self, request, obj=None) -> bool:
        return False


@admin.register(Membership)
class MembershipAdmin(LookOnly):
    list_display = ("team", "user", "role", "created_at")
    list_filter = ("role", "team")
    list_select_related = ("team", "user")
    search_fields = ("user__email", "team__slug")


@admin.register(ApiKey)
class ApiKeyAdmin(LookOnly):
    list_display = ("name", "team", "role", "hint", "created_by", "last_used_at", "expires_at", "revoked_at")
    list_filter = ("role", "team")
    list_select_related = ("team", "created_by")
    search_fields = ("name", "public_id", "team__slug")
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke the chosen keys at once", permissions=["view"])
    def revoke(self, request, queryset: QuerySet[ApiKey]) -> None:
        for key in queryset.select_related("team"):
            try:
                services.api_key_revoke(actor=services.staff_actor(key.team, request.user), key=key)
                messages.success(request, f"The key {key.name} of {key.team} no longer works.")
            except StudioError as exc:
                messages.error(request, str(exc))


@admin.register(AuditEvent)
class AuditEventAdmin(LookOnly):
    list_display = ("created_at", "team", "verb", "user", "api_key", "object_type", "object_id")
    list_filter = ("team", "verb")
    list_select_related = ("team", "user", "api_key")
    search_fields = ("verb", "object_id", "user__email", "team__slug")
    date_hierarchy = "created_at"
    ordering = ("-id",)
    actions = ("export",)

    @admin.action(description="Export the chosen as CSV", permissions=["view"])
    def export(self, request, queryset: QuerySet[AuditEvent]) -> StreamingHttpResponse:
        rows = queryset.select_related("team", "user", "api_key").order_by("id")
        answer = StreamingHttpResponse(audit_csv(rows), content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = 'attachment; filename="audit.csv"'
        return answer
