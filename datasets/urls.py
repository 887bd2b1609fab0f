"""Addresses of the datasets room."""

app_name = "datasets"
urlpatterns: list = []
