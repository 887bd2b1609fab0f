"""The attribution room as a Django app."""

from django.apps import AppConfig


class AttributionConfig(AppConfig):
    name = "jobs.attribution"
    label = "attribution"
