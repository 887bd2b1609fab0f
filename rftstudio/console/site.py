"""The admin site: its front page shows money over all teams; its doors decide and stop through services."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.http import urlencode

#: What the groups of rows are called, in this order; others follow under their own names.
APPS = {"usage": "Money", "teams": "People and teams", "axes": "Attempts to log in"}
MODELS = {
    "ApiKey": "API keys",
    "AuditEvent": "Audit log",
    "LedgerLine": "Ledger",
    "Membership": "Members",
    "MonthClosing": "Closed months",
    "StopSwitch": "Stop switches",
}


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

    def has_permission(self, request: HttpRequest) -> bool:
        """Staff; where the environment asks for it, only with a second factor."""
        if not super().has_permission(request):
            return False
        from rftstudio.teams.two_factor import has_second_factor

        return not settings.STUDIO_CONSOLE_TWO_FACTOR or has_second_factor(request.user)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[dict[str, Any]]:
        """In the house's words, money and people first."""
        apps = super().get_app_list(request, app_label)
        for app in apps:
            app["name"] = APPS.get(app["app_label"], app["name"])
            for model in app["models"]:
                model["name"] = MODELS.get(model["object_name"], model["name"])
        places = list(APPS)
        return sorted(
            apps, key=lambda app: places.index(app["app_label"]) if app["app_label"] in places else len(places)
        )

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """One log-in for the whole house, with its throttling."""
        if request.user.is_authenticated and self.has_permission(request):
            return redirect("admin:index")
        if super().has_permission(request):
            messages.warning(request, "The console opens only with two-factor log-in. Turn it on first.")
            return redirect("mfa_activate_totp")
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
