"""Which doors exist. Wiring only."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("rftstudio.teams.urls")),
    path("", include("datasets.urls")),
    path("", include("graders.urls")),
    path("", include("jobs.agents.urls")),
    path("", include("jobs.rollouts.urls")),
    path("", include("jobs.attribution.urls")),
    path("", include("jobs.evaluations.urls")),
    path("", include("jobs.urls")),
    path("", include("rftstudio.api.urls")),
    path("admin/", admin.site.urls),
]
