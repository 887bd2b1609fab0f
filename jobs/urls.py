"""Addresses of the jobs room."""

from django.urls import path

from jobs import checkpoint_views, launch_views, views
from jobs.home_views import home_urlpatterns
from jobs.version_panel import version_panel

app_name = "jobs"
_HERE = "t/<slug:team>/jobs"
_KEPT = "t/<slug:team>/checkpoints/<str:public_id>"
urlpatterns = [
    *home_urlpatterns,
    path(f"{_HERE}/", views.job_list, name="job-list"),
    path(f"{_HERE}/new/", launch_views.job_new, name="job-new"),
    path(f"{_HERE}/new/estimate/", launch_views.job_estimate, name="job-estimate"),
    path(f"{_HERE}/drafts/<str:public_id>/", launch_views.draft_open, name="draft-open"),
    path(f"{_HERE}/drafts/<str:public_id>/delete/", launch_views.draft_delete, name="draft-delete"),
    path(f"{_HERE}/compare/", views.job_compare, name="job-compare"),
    path(f"{_HERE}/<str:public_id>/", views.job_detail, name="job-detail"),
    path(f"{_HERE}/<str:public_id>/state/", views.job_state, name="job-state"),
    path(f"{_HERE}/<str:public_id>/charts/", views.job_charts, name="job-charts"),
    path(f"{_HERE}/<str:public_id>/events/", views.job_events, name="job-events"),
    path(f"{_HERE}/<str:public_id>/results/<str:file_id>/", views.job_result, name="job-result"),
    path(f"{_HERE}/<str:public_id>/pause/", views.job_pause, name="job-pause"),
    path(f"{_HERE}/<str:public_id>/resume/", views.job_resume, name="job-resume"),
    path(f"{_HERE}/<str:public_id>/cancel/", views.job_cancel, name="job-cancel"),
    path(f"{_HERE}/<str:public_id>/alarms/<slug:key>/mute/", views.alarm_mute, name="alarm-mute"),
    path("t/<slug:team>/used/<str:public_id>/", version_panel, name="version-panel"),
    path(f"{_KEPT}/evaluate/", checkpoint_views.checkpoint_evaluate, name="checkpoint-evaluate"),
    path(f"{_KEPT}/promote/", checkpoint_views.checkpoint_promote, name="checkpoint-promote"),
    path(f"{_KEPT}/download/", checkpoint_views.checkpoint_download, name="checkpoint-download"),
    path(f"{_KEPT}/delete/", checkpoint_views.checkpoint_delete, name="checkpoint-delete"),
    path(f"{_KEPT}/expiry/", checkpoint_views.checkpoint_expiry, name="checkpoint-expiry"),
    path(f"{_KEPT}/try/", checkpoint_views.checkpoint_try, name="checkpoint-try"),
]
