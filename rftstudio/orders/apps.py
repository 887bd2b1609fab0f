from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "rftstudio.orders"
    label = "orders"
    verbose_name = "Orders through the REST door"
