"""Addresses of the rollouts room. `rollout-detail` joins this namespace from the attribution room."""

from django.urls import path

from jobs.rollouts import asking_views, item_panel, keeping_views, regrade_views, to_items_views, tool_views, views

app_name = "rollouts"
_regrade = "t/<slug:team>/regrades/<str:public_id>/"
urlpatterns: list = [
    path("t/<slug:team>/rollouts/", views.rollout_list, name="rollout-list"),
    path("t/<slug:team>/rollouts/export/", views.rollout_export, name="rollout-export"),
    path("t/<slug:team>/rollouts/distributions/", views.rollout_histograms, name="rollout-histograms"),
    path("t/<slug:team>/rollouts/groups/<int:anchor>/", views.rollout_group, name="rollout-group"),
    path("t/<slug:team>/rollouts/<str:public_id>/peek/", views.rollout_peek, name="rollout-peek"),
    path(
        "t/<slug:team>/rollouts/<str:public_id>/steps/<int:step>/results/<int:call>/",
        views.step_result,
        name="step-result",
    ),
    path("t/<slug:team>/rollouts/items/", to_items_views.rollout_items, name="rollout-items"),
    path("t/<slug:team>/rollouts/of/<str:public_id>/<int:position>/", item_panel.item_panel, name="item-panel"),
    path("t/<slug:team>/rollouts/import/", keeping_views.rollout_import, name="rollout-import"),
    path("t/<slug:team>/rollouts/views/", keeping_views.view_save, name="view-save"),
    path("t/<slug:team>/rollouts/views/<int:pk>/remove/", keeping_views.view_remove, name="view-remove"),
    path("t/<slug:team>/masking/", keeping_views.mask_list, name="mask-list"),
    path("t/<slug:team>/masking/<int:pk>/remove/", keeping_views.mask_remove, name="mask-remove"),
    path("t/<slug:team>/rollouts/ask/", asking_views.rollout_ask, name="rollout-ask"),
    path("t/<slug:team>/rollouts/tools/<str:public_id>/", tool_views.tool_panel, name="tool-panel"),
    path("t/<slug:team>/regrades/of/<str:public_id>/", regrade_views.regrade_panel, name="regrade-panel"),
    path("t/<slug:team>/regrades/new/<str:public_id>/", regrade_views.regrade_new, name="regrade-new"),
    path(_regrade, regrade_views.regrade_detail, name="regrade-detail"),
    path(f"{_regrade}cancel/", regrade_views.regrade_cancel, name="regrade-cancel"),
    path(f"{_regrade}resume/", regrade_views.regrade_resume, name="regrade-resume"),
    path(f"{_regrade}adopt/", regrade_views.regrade_adopt, name="regrade-adopt"),
]
