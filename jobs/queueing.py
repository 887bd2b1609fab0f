"""Waking a worker after the commit. A broker that is down is no reason to refuse: the sweep finds the work anyway."""

import logging
from typing import Any

from celery import Task
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)


def queue(task: Task, *args: Any, countdown: float | None = None) -> None:
    """Send a task once the transaction has committed."""

    def send() -> None:
        try:
            task.apply_async(args, countdown=countdown, retry=False)
        except (OperationalError, OSError) as exc:
            logger.warning("%s was not queued, the sweep will do it: %s", task.name, exc)

    transaction.on_commit(send)
