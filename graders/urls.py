"""Addresses of the graders room."""

from django.urls import path

from graders import views, views_tests

app_name = "graders"
_one = "t/<slug:team>/graders/<str:public_id>/"
urlpatterns = [
    path("t/<slug:team>/graders/", views.grader_list, name="grader-list"),
    path("t/<slug:team>/graders/new/", views.grader_new, name="grader-new"),
    path("t/<slug:team>/graders/safety/", views.sandbox_page, name="sandbox"),
    path(_one, views.grader_detail, name="grader-detail"),
    path(f"{_one}json/", views.grader_json, name="grader-json"),
    path(f"{_one}publish/", views.grader_publish, name="grader-publish"),
    path(f"{_one}discard/", views.grader_discard, name="grader-discard"),
    path(f"{_one}versions/", views.grader_versions, name="grader-versions"),
    path(f"{_one}check/", views_tests.grader_check, name="grader-check"),
    path(f"{_one}test/", views_tests.grader_test, name="grader-test"),
    path(f"{_one}samples/", views_tests.grader_samples, name="grader-samples"),
    path(f"{_one}set/", views_tests.grader_set, name="grader-set"),
    path(f"{_one}gaming/", views_tests.grader_gaming, name="grader-gaming"),
    path(f"{_one}agreement/", views_tests.grader_agreement, name="grader-agreement"),
]
