"""Addresses of the attribution room. `rollout_patterns` joins the `rollouts` namespace in the roof's urls."""

from django.urls import path

from jobs.attribution import views

app_name = "attribution"
urlpatterns = [
    path("t/<slug:team>/credit-methods/", views.method_list, name="method-list"),
    path("t/<slug:team>/credit/<str:source>/", views.source_credit, name="source-credit"),
    path("t/<slug:team>/credit/<str:source>/compute/", views.source_compute, name="source-compute"),
    path("t/<slug:team>/rollouts/<str:public_id>/rerun/", views.rerun_start, name="rerun-start"),
    path("t/<slug:team>/rollouts/<str:public_id>/judge/", views.judge_start, name="judge-start"),
    path("t/<slug:team>/rollouts/<str:public_id>/knowledge/", views.knowledge_read, name="knowledge-read"),
    path("t/<slug:team>/rollouts/<str:public_id>/steps/<int:step>/mark/", views.step_mark, name="step-mark"),
]

#: The rollout page draws credit, which the rollouts room knows nothing of; so it lives here, one floor up.
rollout_patterns = [
    path("t/<slug:team>/rollouts/<str:public_id>/", views.rollout_detail, name="rollout-detail"),
]
