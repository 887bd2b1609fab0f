"""Prices, usage, quotas and reservations."""

from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "rftstudio.usage"
    label = "usage"
