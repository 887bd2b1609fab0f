"""Addresses of log-in and team pages."""

app_name = "teams"
urlpatterns: list = []
