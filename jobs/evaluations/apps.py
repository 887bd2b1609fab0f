"""The evaluations room as a Django app."""

from django.apps import AppConfig


class EvaluationsConfig(AppConfig):
    name = "jobs.evaluations"
    label = "evaluations"
