"""Addresses under the names that django-allauth asks for; only the doors that exist here."""

from django.contrib.auth.decorators import login_required
from django.urls import path
from django.views.generic import RedirectView

from rftstudio.teams import views_account, views_sign_in

_FACTOR = "account/two-factor"


def _mine(view):
    return login_required(view.as_view())


urlpatterns = [
    path("log-in/", views_account.LogIn.as_view(), name="account_login"),
    path("log-in/code/", views_sign_in.SecondStep.as_view(), name="mfa_authenticate"),
    path("log-in/with/<slug:provider_id>/", views_sign_in.sign_on, name="openid_connect_login"),
    path("log-in/with/<slug:provider_id>/back/", views_sign_in.sign_on_back, name="openid_connect_callback"),
    path("account/again/", _mine(views_sign_in.PasswordAgain), name="account_reauthenticate"),
    path("account/again/code/", _mine(views_sign_in.CodeAgain), name="mfa_reauthenticate"),
    path(f"{_FACTOR}/", login_required(RedirectView.as_view(pattern_name="teams:account")), name="mfa_index"),
    path(f"{_FACTOR}/on/", _mine(views_sign_in.SecondFactorOn), name="mfa_activate_totp"),
    path(f"{_FACTOR}/off/", _mine(views_sign_in.SecondFactorOff), name="mfa_deactivate_totp"),
    path(f"{_FACTOR}/codes/", _mine(views_sign_in.RecoveryCodes), name="mfa_view_recovery_codes"),
    path(f"{_FACTOR}/codes.txt", _mine(views_sign_in.RecoveryCodesFile), name="mfa_download_recovery_codes"),
    path(f"{_FACTOR}/codes/new/", _mine(views_sign_in.RecoveryCodesNew), name="mfa_generate_recovery_codes"),
]
