"""Addresses of the attribution room."""

app_name = "attribution"
urlpatterns: list = []
