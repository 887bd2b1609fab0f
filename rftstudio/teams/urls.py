"""Addresses of log-in and team pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from rftstudio.teams import views

app_name = "teams"
urlpatterns = [
    path("", views.home_redirect, name="home-redirect"),
    path("log-in/", views.log_in, name="log-in"),
    path("log-out/", LogoutView.as_view(), name="log-out"),
    path("theme/", views.theme_set, name="theme-set"),
    path("t/<slug:team>/", views.home, name="home"),
    path("t/<slug:team>/members/", views.member_list, name="member-list"),
    path("t/<slug:team>/keys/", views.key_list, name="key-list"),
    path("t/<slug:team>/keys/<str:public_id>/revoke/", views.key_revoke, name="key-revoke"),
]
