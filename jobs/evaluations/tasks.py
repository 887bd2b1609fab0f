"""Celery's door to evaluations."""

from celery import shared_task


@shared_task
def evaluations_settle() -> None:
    from jobs.evaluations import services

    services.evaluations_settle()
