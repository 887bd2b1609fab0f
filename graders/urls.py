"""Addresses of the graders room."""

app_name = "graders"
urlpatterns: list = []
