"""Addresses of the rollouts room."""

app_name = "rollouts"
urlpatterns: list = []
