"""Addresses of the gateway. The secret is part of them, so they never appear on a page or in a log."""

from django.urls import path

from jobs.rollouts import gateway_views

app_name = "gateway"
urlpatterns = [
    path("<str:secret>/tool", gateway_views.tool, name="tool"),
    path("<str:secret>/grader", gateway_views.grader, name="grader"),
]
