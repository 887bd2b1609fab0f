"""Addresses of the datasets room."""

from django.urls import path

from datasets import views, views_changes

app_name = "datasets"
_VERSION = "t/<slug:team>/datasets/<str:public_id>/"
urlpatterns = [
    path("t/<slug:team>/datasets/", views.dataset_list, name="dataset-list"),
    path("t/<slug:team>/datasets/new/", views.dataset_new, name="dataset-new"),
    path("t/<slug:team>/datasets/map/<str:public_id>/", views.source_file_map, name="source-file-map"),
    path(_VERSION, views.version_detail, name="version-detail"),
    path(_VERSION + "progress/", views.import_progress, name="import-progress"),
    path(_VERSION + "items/<int:position>/", views.item_detail, name="item-detail"),
    path(_VERSION + "lines/<int:problem_id>/", views_changes.line_edit, name="line-edit"),
    path(_VERSION + "lines.csv", views.problems_csv, name="problems-csv"),
    path(_VERSION + "compare/<str:other>/", views.version_compare, name="version-compare"),
    path(_VERSION + "export/<str:file_format>/", views.version_export, name="version-export"),
    path(_VERSION + "fix/", views_changes.kind_fix, name="kind-fix"),
    path(_VERSION + "skip/", views_changes.lines_skip, name="lines-skip"),
    path(_VERSION + "drop/", views_changes.items_drop, name="items-drop"),
    path(_VERSION + "map/", views_changes.items_map, name="items-map"),
    path(_VERSION + "undo/", views_changes.change_undo, name="change-undo"),
    path(_VERSION + "split/", views_changes.version_split, name="version-split"),
    path(_VERSION + "freeze/", views_changes.version_freeze, name="version-freeze"),
    path(_VERSION + "copy/", views_changes.version_copy, name="version-copy"),
    path(_VERSION + "near/", views_changes.near_repeats, name="near-repeats"),
    path(_VERSION + "near/found/", views.near_found, name="near-found"),
    path(_VERSION + "encodings/", views_changes.encodings, name="encodings"),
    path(_VERSION + "reread/", views_changes.file_reread, name="file-reread"),
]
