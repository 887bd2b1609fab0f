"""Addresses of log-in, a person's own pages, and team pages."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from rftstudio.teams import views, views_account, views_people

app_name = "teams"
_MEMBERS = "t/<slug:team>/members"
urlpatterns = [
    path("", views.home_redirect, name="home-redirect"),
    path("log-in/", views_account.LogIn.as_view(), name="log-in"),
    path("log-out/", LogoutView.as_view(), name="log-out"),
    path("theme/", views.theme_set, name="theme-set"),
    path("account/", views_account.account, name="account"),
    path("account/sessions/<int:session_id>/end/", views_account.session_end, name="session-end"),
    path("password/", views_account.PasswordReset.as_view(), name="password-reset"),
    path("password/sent/", views_account.password_reset_sent, name="password-reset-sent"),
    path("password/<uidb64>/<token>/", views_account.PasswordResetConfirm.as_view(), name="password-reset-confirm"),
    path("invitations/<str:token>/", views_people.invitation_accept, name="invitation-accept"),
    path("t/<slug:team>/", views.home, name="home"),
    path(f"{_MEMBERS}/", views_people.member_list, name="member-list"),
    path(f"{_MEMBERS}/service-accounts/", views_people.service_account_new, name="service-account-new"),
    path(f"{_MEMBERS}/<int:member_id>/role/", views_people.member_role, name="member-role"),
    path(f"{_MEMBERS}/<int:member_id>/remove/", views_people.member_remove, name="member-remove"),
    path("t/<slug:team>/invitations/<str:public_id>/revoke/", views_people.invitation_revoke, name="invitation-revoke"),
    path("t/<slug:team>/audit/", views_people.audit_list, name="audit-list"),
    path("t/<slug:team>/audit.csv", views_people.audit_export, name="audit-export"),
    path("t/<slug:team>/keys/", views.key_list, name="key-list"),
    path("t/<slug:team>/keys/<str:public_id>/revoke/", views.key_revoke, name="key-revoke"),
]
