"""Task datasets. Not to be confused with the library of that name: see docs/architecture.md."""

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    name = "datasets"
