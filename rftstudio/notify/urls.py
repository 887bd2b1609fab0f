"""Addresses of notices."""

from django.urls import path

from rftstudio.notify import views

app_name = "notify"
_HOOK = "t/<slug:team>/notices/webhooks/<str:public_id>"
_SINK = "t/<slug:team>/notices/sinks"
urlpatterns = [
    path("t/<slug:team>/notices/", views.notice_list, name="notice-list"),
    path("t/<slug:team>/notices/mail/", views.mail_choice, name="mail-choice"),
    path(f"{_HOOK}/", views.webhook_detail, name="webhook-detail"),
    path(f"{_HOOK}/test/", views.webhook_test, name="webhook-test"),
    path(f"{_HOOK}/switch/", views.webhook_switch, name="webhook-switch"),
    path(f"{_HOOK}/remove/", views.webhook_remove, name="webhook-remove"),
    path("t/<slug:team>/notices/deliveries/<str:public_id>/replay/", views.delivery_replay, name="delivery-replay"),
    path(f"{_SINK}/", views.sink_new, name="sink-new"),
    path(f"{_SINK}/<str:public_id>/switch/", views.sink_switch, name="sink-switch"),
    path(f"{_SINK}/<str:public_id>/remove/", views.sink_remove, name="sink-remove"),
]
