"""Addresses of the rollouts room. `rollout-detail` joins this namespace from the attribution room."""

from django.urls import path

from jobs.rollouts import views

app_name = "rollouts"
urlpatterns: list = [
    path("t/<slug:team>/rollouts/", views.rollout_list, name="rollout-list"),
    path("t/<slug:team>/rollouts/export/", views.rollout_export, name="rollout-export"),
    path("t/<slug:team>/rollouts/distributions/", views.rollout_histograms, name="rollout-histograms"),
    path("t/<slug:team>/rollouts/groups/<int:anchor>/", views.rollout_group, name="rollout-group"),
    path("t/<slug:team>/rollouts/<str:public_id>/peek/", views.rollout_peek, name="rollout-peek"),
    path(
        "t/<slug:team>/rollouts/<str:public_id>/steps/<int:step>/results/<int:call>/",
        views.step_result,
        name="step-result",
    ),
]
