"""The agents room as a Django app."""

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "jobs.agents"
    label = "agents"
