"""Admin pages for rows that history made: for looking, never for editing."""

from django.contrib import admin


class LookOnly(admin.ModelAdmin):
    """Whatever changes here goes through an action, and thereby a service and an audit event."""

    show_full_result_count = False

    def has_add_permission(self, request) -> bool:
        return False

    def has_change_permission(self, request, obj=None) -> bool:
        return False

    def has_delete_permission(self, request, obj=None) -> bool:
        return False
