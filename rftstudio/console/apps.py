"""The console is Django's admin with our front page."""

from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    default_site = "rftstudio.console.site.ConsoleSite"
