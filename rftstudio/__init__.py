"""RFT Studio. Loads the Celery app so that `@shared_task` finds it."""

from rftstudio.celery import app as celery_app

__all__ = ["celery_app"]
