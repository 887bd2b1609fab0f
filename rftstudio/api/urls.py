"""Addresses of the REST doors."""

from django.urls import include, path

from rftstudio.api import (  # noqa: F401  schema registers itself by being read
    chat,
    checkpoint_permissions,
    doors,
    evals,
    files,
    fine_tuning_jobs,
    graders,
    health,
    models_door,
    responses_door,
    schema,
    tool_runs,
)  # fmt: skip
from rftstudio.api.traces import TracesDoor

app_name = "api"
_JOB = "v1/fine_tuning/jobs/<str:public_id>"
_ALPHA = "v1/fine_tuning/alpha"
_LOANS = "v1/fine_tuning/checkpoints/<str:name>/permissions"
_EVAL = "v1/evals/<str:wanted>"

urlpatterns = [
    path("healthz", health.healthz, name="health"),
    path("v1/files", files.files_door, name="files"),
    path("v1/files/<str:public_id>", files.file_door, name="file"),
    path("v1/files/<str:public_id>/content", files.file_content, name="file-content"),
    path("v1/fine_tuning/jobs", fine_tuning_jobs.jobs, name="jobs"),
    path(_JOB, fine_tuning_jobs.job_get, name="job"),
    path(f"{_JOB}/cancel", fine_tuning_jobs.job_cancel, name="job-cancel"),
    path(f"{_JOB}/pause", fine_tuning_jobs.job_pause, name="job-pause"),
    path(f"{_JOB}/resume", fine_tuning_jobs.job_resume, name="job-resume"),
    path(f"{_JOB}/events", fine_tuning_jobs.event_list, name="job-events"),
    path(f"{_JOB}/checkpoints", fine_tuning_jobs.checkpoint_list, name="job-checkpoints"),
    path(_LOANS, checkpoint_permissions.permissions, name="checkpoint-permissions"),
    path(f"{_LOANS}/<str:permission>", checkpoint_permissions.permission_delete, name="checkpoint-permission"),
    path(f"{_ALPHA}/graders/run", graders.grader_run, name="grader-run"),
    path(f"{_ALPHA}/graders/validate", graders.grader_validate, name="grader-validate"),
    path(f"{_ALPHA}/tool/run", tool_runs.tool_run, name="tool-run"),
    path(_EVAL, evals.eval_get, name="eval"),
    path(f"{_EVAL}/runs", evals.run_list, name="eval-runs"),
    path(f"{_EVAL}/runs/<str:run>", evals.run_get, name="eval-run"),
    path(f"{_EVAL}/runs/<str:run>/output_items", evals.item_list, name="eval-items"),
    path(f"{_EVAL}/runs/<str:run>/output_items/<str:item>", evals.item_get, name="eval-item"),
    path("v1/chat/completions", chat.chat_create, name="chat"),
    path("v1/responses", responses_door.response_create, name="responses"),
    path("v1/models", models_door.model_list, name="model-list"),
    path("v1/models/<path:name>", models_door.model_door, name="model-get"),
    path("v1/traces", TracesDoor.as_view(), name="traces"),
    path("api/", include("rftstudio.api.rest.urls")),
    path("v1/<path:rest>", doors.unknown, name="unknown"),
]
