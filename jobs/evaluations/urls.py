"""Addresses of the evaluations room."""

app_name = "evaluations"
urlpatterns: list = []
