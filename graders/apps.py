"""Recipes for scoring samples."""

from django.apps import AppConfig


class GradersConfig(AppConfig):
    name = "graders"
