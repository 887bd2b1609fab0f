"""Addresses of the REST doors."""

from django.urls import include, path

from rftstudio.api import health, models_door, schema  # noqa: F401  schema registers itself by being read
from rftstudio.api.traces import TracesDoor

app_name = "api"
urlpatterns = [
    path("healthz", health.healthz, name="health"),
    path("v1/models", models_door.model_list, name="model-list"),
    path("v1/models/<path:name>", models_door.model_get, name="model-get"),
    path("api/", include("rftstudio.api.rest.urls")),
    path("v1/traces", TracesDoor.as_view(), name="traces"),
]
