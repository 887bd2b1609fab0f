"""Addresses of the agents room."""

app_name = "agents"
urlpatterns: list = []
