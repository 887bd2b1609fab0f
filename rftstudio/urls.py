"""Which doors exist. Wiring only."""

from django.contrib import admin
from django.urls import include, path

from jobs.attribution.urls import rollout_patterns
from jobs.rollouts import urls as rollouts

urlpatterns = [
    path("", include("rftstudio.teams.urls")),
    path("", include("rftstudio.teams.urls_sign_in")),
    path("", include("rftstudio.usage.urls")),
    path("", include("datasets.urls")),
    path("", include("datasets.labelling.urls")),
    path("", include("graders.urls")),
    path("", include("jobs.agents.urls")),
    path("", include(([*rollouts.urlpatterns, *rollout_patterns], rollouts.app_name))),
    path("gateway/", include("jobs.rollouts.gateway_urls")),
    path("", include("jobs.attribution.urls")),
    path("", include("jobs.evaluations.urls")),
    path("", include("jobs.urls")),
    path("", include("rftstudio.notify.urls")),
    path("", include("rftstudio.api.urls")),
    path("admin/", admin.site.urls),
]
