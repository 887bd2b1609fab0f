"""Addresses of the REST doors."""

app_name = "api"
urlpatterns: list = []
