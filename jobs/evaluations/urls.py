"""Addresses of the evaluations room."""

from django.urls import path

from jobs.evaluations import views

app_name = "evaluations"
_HERE = "t/<slug:team>/evaluations"
urlpatterns = [
    path(f"{_HERE}/", views.evaluation_list, name="evaluation-list"),
    path(f"{_HERE}/new/", views.evaluation_new, name="evaluation-new"),
    path(f"{_HERE}/compare/", views.evaluation_compare, name="evaluation-compare"),
    path(f"{_HERE}/<str:public_id>/", views.evaluation_detail, name="evaluation-detail"),
    path(f"{_HERE}/<str:public_id>/live/", views.evaluation_live, name="evaluation-live"),
    path(f"{_HERE}/<str:public_id>/charts/", views.evaluation_charts, name="evaluation-charts"),
    path(f"{_HERE}/<str:public_id>/cancel/", views.evaluation_cancel, name="evaluation-cancel"),
]
