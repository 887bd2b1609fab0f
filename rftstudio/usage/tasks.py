"""Celery's door to money."""

from celery import shared_task


@shared_task
def notices_look() -> None:
    from rftstudio.usage import notices

    notices.notices_look()
