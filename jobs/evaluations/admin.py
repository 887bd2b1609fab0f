"""The support desk's view of evaluations: for looking."""

from django.contrib import admin

from jobs.evaluations.models import Evaluation


@admin.register(Evaluation)
class EvaluationAdmin(admin.ModelAdmin):
    list_display = ("public_id", "team", "number", "status", "policy_label", "split", "created_at")
    list_filter = ("status", "split")
    list_select_related = ("team",)
    search_fields = ("public_id", "team__slug")

    def has_add_permission(self, request) -> bool:
        return False

    def has_change_permission(self, request, obj=None) -> bool:
        return False

    def has_delete_permission(self, request, obj=None) -> bool:
        return False
