"""Celery wiring: the app, its queues, the whole beat schedule, ids in its logs. No task bodies here."""

import os

from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftstudio.settings.local")

app = Celery("rftstudio")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Sweeps look at the database and finish whatever is ready; a lost message is repaired by the next look.
# A look that waited longer than its own interval is dropped, or a stopped worker would come back to thousands of them.
app.conf.beat_schedule = {
    "imports-sweep": {"task": "datasets.tasks.imports_sweep", "schedule": 30.0, "options": {"expires": 90.0}},
    "rollouts-sweep": {"task": "jobs.rollouts.tasks.rollouts_sweep", "schedule": 5.0, "options": {"expires": 15.0}},
    "spans-sweep": {"task": "jobs.rollouts.tasks.spans_sweep", "schedule": 3600.0, "options": {"expires": 1800.0}},
    "credit-sweep": {"task": "jobs.attribution.tasks.credit_sweep", "schedule": 15.0, "options": {"expires": 45.0}},
    "regrades-sweep": {"task": "jobs.rollouts.tasks.regrades_sweep", "schedule": 10.0, "options": {"expires": 30.0}},
    "evaluations-settle": {
        "task": "jobs.evaluations.tasks.evaluations_settle",
        "schedule": 5.0,
        "options": {"expires": 15.0},
    },
    "orders-advance": {
        "task": "rftstudio.orders.tasks.orders_advance",
        "schedule": 3.0,
        "options": {"expires": 9.0},
    },
    "files-sweep": {"task": "rftstudio.orders.tasks.files_sweep", "schedule": 300.0, "options": {"expires": 300.0}},
    "jobs-sync": {"task": "jobs.tasks.jobs_sync", "schedule": 3.0, "options": {"expires": 9.0}},
    "results-sweep": {"task": "jobs.tasks.results_sweep", "schedule": 30.0, "options": {"expires": 90.0}},
    "notices-look": {"task": "rftstudio.usage.tasks.notices_look", "schedule": 300.0, "options": {"expires": 300.0}},
    "notices-sweep": {"task": "rftstudio.notify.tasks.notices_sweep", "schedule": 10.0, "options": {"expires": 30.0}},
    "sinks-sweep": {"task": "rftstudio.notify.tasks.sinks_sweep", "schedule": 30.0, "options": {"expires": 90.0}},
    "kept-sweep": {"task": "rftstudio.api.rest.tasks.kept_sweep", "schedule": 3600.0, "options": {"expires": 3600.0}},
    "storage-charge": {"task": "jobs.tasks.storage_charge", "schedule": 3600.0, "options": {"expires": 3600.0}},
}
app.conf.task_routes = {
    "jobs.tasks.storage_charge": {"queue": "default"},
    "jobs.tasks.job_credit": {"queue": "rollouts"},  # takes seconds of work, so it stays out of the way of job_sync
    "jobs.attribution.tasks.knowledge_read": {"queue": "rollouts"},  # may load a model
    "jobs.rollouts.tasks.*": {"queue": "rollouts"},
    "jobs.tasks.*": {"queue": "training"},
}


@signals.setup_logging.connect
def _keep_our_logging(**kwargs) -> None:
    """Having a receiver is what tells Celery to leave the logging that Django has set up."""


@signals.worker_init.connect
def _follow_supervisor(**kwargs) -> None:
    from rftstudio.ops.processes import follow_supervisor

    follow_supervisor()


@signals.before_task_publish.connect
def _carry_request_id(headers: dict | None = None, **kwargs) -> None:
    """The request that queued a task is named in the task's log lines."""
    import structlog

    request_id = structlog.contextvars.get_contextvars().get("request_id")
    if headers is not None and request_id:
        headers["request_id"] = request_id


@signals.task_prerun.connect
def _bind_task(task_id: str, task, **kwargs) -> None:
    import structlog

    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task_id=task_id, task=task.name)
    if request_id := (task.request.get("request_id") or (task.request.headers or {}).get("request_id")):
        structlog.contextvars.bind_contextvars(request_id=request_id)


@signals.task_postrun.connect
def _unbind_task(**kwargs) -> None:
    import structlog

    structlog.contextvars.clear_contextvars()
