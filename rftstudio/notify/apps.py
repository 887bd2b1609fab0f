from django.apps import AppConfig


class NotifyConfig(AppConfig):
    name = "rftstudio.notify"
    label = "notify"
    verbose_name = "Notices"
