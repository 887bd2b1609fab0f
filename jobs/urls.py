"""Addresses of the jobs room."""

app_name = "jobs"
urlpatterns: list = []
