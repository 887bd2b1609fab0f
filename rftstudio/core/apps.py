"""The ground floor as a Django app, so that its template tags load. It has no tables."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "rftstudio.core"
    label = "core"
