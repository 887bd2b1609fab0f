"""The support desk's view of jobs: for looking; its one action goes through the service."""

from django.contrib import admin, messages

from jobs import services
from jobs.models import Checkpoint, Job, JobEvent, LaunchDraft, TrainStep
from rftstudio.core.errors import StudioError
from rftstudio.teams.actor import system_actor


class LookOnly(admin.ModelAdmin):
    """Rows that history made: nobody edits them here."""

    def has_add_permission(self, request) -> bool:
        return False

    def has_change_permission(self, request, obj=None) -> bool:
        return False

    def has_delete_permission(self, request, obj=None) -> bool:
        return False


@admin.register(LaunchDraft)
class LaunchDraftAdmin(LookOnly):
    list_display = ("public_id", "team", "name", "created_by", "updated_at")
    list_select_related = ("team", "created_by")
    search_fields = ("public_id", "team__slug", "name")


@admin.register(Job)
class JobAdmin(LookOnly):
    list_display = (
        "public_id",
        "team",
        "number",
        "status",
        "backend",
        "done_steps",
        "total_steps",
        "restarts",
        "heartbeat_at",
    )
    list_filter = ("status", "backend")
    list_select_related = ("team",)
    search_fields = ("public_id", "team__slug", "external_id")
    actions = ("cancel",)

    @admin.action(description="Cancel the chosen jobs", permissions=["view"])
    def cancel(self, request, queryset) -> None:
        if not request.user.is_superuser:
            messages.error(request, "Only a superuser may cancel jobs of other teams.")
            return
        for job in queryset.select_related("team"):
            try:
                services.job_cancel(
                    actor=system_actor(job.team), job=job, note=f"By the support desk ({request.user})."
                )
            except StudioError as exc:
                messages.error(request, f"{job.public_id}: {exc}")


@admin.register(JobEvent)
class JobEventAdmin(LookOnly):
    list_display = ("job", "sequence", "level", "type", "message", "created_at")
    list_filter = ("level", "type")
    list_select_related = ("job",)
    search_fields = ("job__public_id", "message")


@admin.register(Checkpoint)
class CheckpointAdmin(LookOnly):
    list_display = ("public_id", "job", "step_number", "validation_reward", "is_deleted", "created_at")
    list_select_related = ("job",)
    search_fields = ("public_id", "job__public_id")


@admin.register(TrainStep)
class TrainStepAdmin(LookOnly):
    list_display = ("job", "number", "attempt", "mean_reward", "validation_reward", "at")
    list_select_related = ("job",)
    search_fields = ("job__public_id",)
