"""Addresses of the agents room."""

from django.urls import path

from jobs.agents import views

app_name = "agents"
urlpatterns = [
    path("t/<slug:team>/agents/", views.agent_list, name="agent-list"),
    path("t/<slug:team>/agents/new/", views.agent_new, name="agent-new"),
    path("t/<slug:team>/agents/tools/", views.tool_list, name="tool-list"),
    path("t/<slug:team>/agents/tools/new/", views.tool_new, name="tool-new"),
    path("t/<slug:team>/agents/tools/<str:public_id>/", views.tool_detail, name="tool-detail"),
    path("t/<slug:team>/agents/tools/<str:public_id>/test/", views.tool_test, name="tool-test"),
    path("t/<slug:team>/agents/models/", views.model_list, name="model-list"),
    path("t/<slug:team>/agents/models/new/", views.model_new, name="model-new"),
    path("t/<slug:team>/agents/models/<str:public_id>/key/", views.model_key_set, name="model-key-set"),
    path("t/<slug:team>/agents/<str:public_id>/", views.agent_detail, name="agent-detail"),
    path("t/<slug:team>/agents/<str:public_id>/publish/", views.agent_publish, name="agent-publish"),
]
