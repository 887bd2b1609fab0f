"""Addresses of the jobs room."""

from jobs.home_views import home_urlpatterns

app_name = "jobs"
urlpatterns: list = [*home_urlpatterns]
