"""People, teams, roles, keys and the audit log."""

from django.apps import AppConfig


class TeamsConfig(AppConfig):
    name = "rftstudio.teams"
    label = "teams"
