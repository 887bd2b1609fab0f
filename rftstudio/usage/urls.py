"""Addresses of the pages about money."""

from django.urls import path

from rftstudio.usage import views

app_name = "usage"
_HERE = "t/<slug:team>/costs"
urlpatterns = [
    path(f"{_HERE}/", views.cost_list, name="cost-list"),
    path(f"{_HERE}/spend/", views.cost_spend, name="cost-spend"),
    path(f"{_HERE}/ledger/", views.ledger_list, name="ledger-list"),
    path(f"{_HERE}/ledger.csv", views.ledger_export, name="ledger-export"),
    path(f"{_HERE}/ledger/<int:line_id>/correct/", views.line_correct, name="line-correct"),
    path(f"{_HERE}/quotas/", views.quota_list, name="quota-list"),
    path(f"{_HERE}/time-zone/", views.time_zone_set, name="time-zone-set"),
    path(f"{_HERE}/months/", views.month_list, name="month-list"),
    path(f"{_HERE}/months/close/", views.month_close, name="month-close"),
    path(f"{_HERE}/months/open/", views.month_reopen, name="month-reopen"),
    path(f"{_HERE}/prices/", views.price_list, name="price-list"),
    path(f"{_HERE}/approvals/", views.approval_list, name="approval-list"),
    path(f"{_HERE}/approvals/<str:public_id>/approve/", views.approval_approve, name="approval-approve"),
    path(f"{_HERE}/approvals/<str:public_id>/decline/", views.approval_decline, name="approval-decline"),
]
