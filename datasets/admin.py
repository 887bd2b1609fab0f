"""The support desk for datasets: for looking only. Changes go through the services and their audit events."""

from django.contrib import admin

from datasets.models import Dataset, DatasetVersion, FileImport, LabelTask, SourceFile


class Looking(admin.ModelAdmin):
    list_select_related = True
    raw_id_fields = ("team", "created_by")

    def has_add_permission(self, request) -> bool:
        return False

    def has_change_permission(self, request, obj=None) -> bool:
        return False

    def has_delete_permission(self, request, obj=None) -> bool:
        return False


@admin.register(SourceFile)
class SourceFileAdmin(Looking):
    list_display = ("public_id", "filename", "team", "bytes", "created_at")
    search_fields = ("public_id", "filename", "sha256")


@admin.register(Dataset)
class DatasetAdmin(Looking):
    list_display = ("name", "team", "created_at")
    search_fields = ("public_id", "name")


@admin.register(DatasetVersion)
class DatasetVersionAdmin(Looking):
    list_display = ("public_id", "dataset", "number", "status", "item_count", "team")
    list_filter = ("status",)
    search_fields = ("public_id", "content_hash")


@admin.register(FileImport)
class FileImportAdmin(Looking):
    raw_id_fields = ("version", "source_file")
    list_display = ("version", "source_file", "status", "records", "item_count", "updated_at")
    list_filter = ("status",)


@admin.register(LabelTask)
class LabelTaskAdmin(Looking):
    list_display = ("name", "team", "version", "overlap", "status")
    search_fields = ("public_id", "name")
