"""Celery wiring: the app, its queues and the whole beat schedule. No task bodies here."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftstudio.settings.local")

app = Celery("rftstudio")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Sweeps look at the database and finish whatever is ready; a lost message is repaired by the next look.
app.conf.beat_schedule = {
    "imports-sweep": {"task": "datasets.tasks.imports_sweep", "schedule": 30.0},
    "rollouts-sweep": {"task": "jobs.rollouts.tasks.rollouts_sweep", "schedule": 5.0},
    "evaluations-settle": {"task": "jobs.evaluations.tasks.evaluations_settle", "schedule": 5.0},
    "jobs-sync": {"task": "jobs.tasks.jobs_sync", "schedule": 3.0},
}
app.conf.task_routes = {
    "jobs.rollouts.tasks.*": {"queue": "rollouts"},
    "jobs.tasks.*": {"queue": "training"},
}
