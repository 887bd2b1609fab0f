"""The admin site: its front page shows money over all teams; its doors decide and stop through services."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.http import urlencode


class ConsoleSite(admin.AdminSite):
    site_title = "RFT Studio console"
    site_header = "RFT Studio console"
    index_title = "What is spent, who is near a limit, what waits"
    index_template = "console/index.html"
    enable_nav_sidebar = True

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        from rftstudio.console.dashboard import dashboard_context

        money = dashboard_context(request.GET) if request.user.is_superuser else {}
        return super().index(request, {**(extra_context or {}), **money})

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """One log-in for the whole house, with its throttling."""
        if request.user.is_authenticated and self.has_permission(request):
            return redirect("admin:index")
        if request.user.is_authenticated:
            return redirect("teams:home-redirect")
        target = request.GET.get("next") or reverse("admin:index")
        return redirect(f"{reverse('teams:log-in')}?{urlencode({'next': target})}")

    def get_urls(self) -> list[URLPattern]:
        from rftstudio.console import views

        own = [
            ("approvals/<str:public_id>/<str:verb>/", views.approval_decide, "approval-decide"),
            ("stop/", views.stop_set, "stop-set"),
        ]
        doors = [path(f"money/{route}", self.admin_view(view), name=name) for route, view, name in own]
        return [*doors, *super().get_urls()]
