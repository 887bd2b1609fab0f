"""Addresses of label tasks."""

from django.urls import path

from datasets.labelling import views

app_name = "labels"
_TASK = "t/<slug:team>/labels/<str:public_id>/"
urlpatterns = [
    path("t/<slug:team>/labels/", views.task_list, name="task-list"),
    path("t/<slug:team>/labels/new/", views.task_new, name="task-new"),
    path("t/<slug:team>/labels/import/", views.task_import, name="task-import"),
    path(_TASK, views.task_detail, name="task-detail"),
    path(_TASK + "next/", views.entry_next, name="entry-next"),
    path(_TASK + "ahead/<int:position>/", views.entry_ahead, name="entry-ahead"),
    path(_TASK + "undo/", views.label_undo, name="label-undo"),
    path(_TASK + "apply/", views.labels_apply, name="labels-apply"),
    path(_TASK + "status/", views.task_status, name="task-status"),
    path(_TASK + "label-studio.json", views.task_export, name="task-export"),
    path(_TASK + "entries/<int:position>/save/", views.label_save, name="label-save"),
    path(_TASK + "entries/<int:position>/submit/", views.label_submit, name="label-submit"),
    path(_TASK + "entries/<int:position>/skip/", views.label_skip, name="label-skip"),
    path(_TASK + "entries/<int:position>/settle/", views.entry_settle, name="entry-settle"),
]
