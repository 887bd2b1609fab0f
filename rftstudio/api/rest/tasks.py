"""Celery's door to what the REST door remembers."""

from celery import shared_task


@shared_task
def kept_sweep() -> None:
    from rftstudio.api.rest import once

    once.kept_sweep()
