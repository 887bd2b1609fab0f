from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "rftstudio.api.rest"
    label = "rest"
    verbose_name = "REST"
