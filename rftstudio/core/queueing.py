"""Waking a worker after the commit. A broker that is down is no reason to refuse: the work is found by a sweep, or done here."""

import logging
from collections.abc import Callable
from typing import Any

from celery import Task
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)


def queue(
    task: Task,
    *args: Any,
    countdown: float | None = None,
    is_swept: bool = True,
    instead: Callable[[], None] | None = None,
) -> None:
    """Send a task once the transaction has committed. What no sweep would find is done at once while the broker is away;
    with `instead` that is done, for a task too long for a request."""

    def send() -> None:
        try:
            task.apply_async(args, countdown=countdown, retry=False)
        except (OperationalError, OSError) as exc:
            then = "given up" if instead else "a sweep will" if is_swept else "done here"
            logger.warning("%s was not queued, %s: %s", task.name, then, exc)
            if instead:
                instead()
            elif not is_swept:
                task(*args)

    transaction.on_commit(send)
