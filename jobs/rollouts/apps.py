"""The rollouts room as a Django app."""

from django.apps import AppConfig


class RolloutsConfig(AppConfig):
    name = "jobs.rollouts"
    label = "rollouts"
